# SPDX-License-Identifier: Apache-2.0
"""The contract of a service: the arguments it gets, and the methods it has."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from servekit.service.metrics import Metrics

__all__ = ["Context", "Done", "Request", "Service"]

T = TypeVar("T")


def _metrics() -> "Metrics":
    from servekit.service.metrics import Metrics  # needs msgspec; most who import us load nothing

    return Metrics()


@dataclass(frozen=True, kw_only=True)
class Context:
    """The argument of ``load``. Runs in: worker."""

    model: str  #: the ``<model>`` of ``/<model>/predict``
    version: str
    directory: Path  #: the unpacked archive, read-only
    replica: int  #: index of this replica of the model, from 0
    max_batch_size: int  #: the longest batch ``predict`` will ever get
    threads: int  #: CPU threads this worker may use without crowding out the others, at least 1
    options: Mapping[str, Any]  #: the ``[options]`` of ``model.toml``
    logger: Logger
    replicas: int = 1  #: how many workers serve this model, or this stage of it
    stage: str = ""  #: name of this stage; "" if the model has no others
    assets: Mapping[str, Path] = field(default_factory=dict)  #: the ``[assets]``, fetched
    metrics: "Metrics" = field(default_factory=_metrics, repr=False)
    read_requests: Callable[[], Sequence["Request"]] = field(default=tuple, repr=False)

    @property
    def requests(self) -> Sequence["Request"]:
        """The requests of the batch that ``predict`` has now, one per input, in their order.

        Made when it is asked for; empty while nothing is predicted.
        """
        return self.read_requests()

    def read_options(self, kind: type[T]) -> T:
        """Return ``options`` as *kind*, a msgspec ``Struct`` or a dataclass of every key.

        :raises BootError: a key is unknown or missing, or its value is of another type.
        """
        from servekit.service.options import read_options

        return read_options(self.options, kind)

    def asset(self, name: str) -> Path:
        """Return the file of ``[assets.NAME]``, read-only and shared by all who use it.

        :raises BootError: ``model.toml`` has no asset of this name.
        """
        from servekit.service.options import find_asset

        return find_asset(self.assets, name)

    def find_file(self, *suffixes: str, file: str = "") -> Path:
        """Return the path of the one file whose name ends in one of *suffixes*, ``".onnx"``.

        :param file: relative to ``directory``: this one instead, as ``[options] file`` says.
        :raises BootError: it is not there, or there is not exactly one.
        """
        from servekit.service.options import find_file

        return find_file(self.directory, suffixes, file)

    def load_array(self, file: str) -> "np.ndarray[Any, Any]":
        """Return the array in a ``.npy`` file, read-only and mapped: replicas share its memory.

        :param file: relative to ``directory``, ``weights.npy``.
        :raises BootError: it is not in ``directory``, or holds no array of numbers.
        """
        from servekit.service.weights import map_npy  # most of servekit maps nothing

        return map_npy(self.directory, file)

    def load_safetensors(self, file: str) -> "dict[str, np.ndarray[Any, Any]]":
        """Return the arrays in a safetensors file by name, as ``load_array`` does.

        :param file: relative to ``directory``, ``model.safetensors``.
        :raises BootError: it is not in ``directory``, not of the format, or holds an element
            type that numpy lacks (bfloat16, float8).
        """
        from servekit.service.weights import map_safetensors

        return map_safetensors(self.directory, file)


@dataclass(slots=True)
class Request:
    """One request, as ``preprocess`` and ``Context.requests`` give it. Runs in: worker."""

    content_type: str  #: media type in lower case, without parameters: ``image/png``
    buffer: bytes | memoryview  #: the body, not copied; gone once the request is answered
    request_id: str
    decode: Callable[[], Any] = field(repr=False)
    deadline: float = math.inf  #: ``time.monotonic``: nobody waits for the answer any longer
    has_gone: Callable[[], bool] = field(default=lambda: False, repr=False)  #: the client
    #: those of ``Service.request_headers`` that came, names in lower case, and ``traceparent``
    headers: Mapping[str, str] = field(default_factory=dict)
    #: those parameters of ``Service.request_query`` that the URL has; the last of each
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The body as a copy."""
        return bytes(self.buffer)

    @property
    def input(self) -> Any:
        """The body, decoded by the codec of its content type.

        :raises BodyMalformed: it does not decode.
        :raises UnknownMediaType: no codec reads this content type.
        """
        return self.decode()

    @property
    def remaining_s(self) -> float:
        """Seconds until ``deadline``, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has disconnected or the deadline has passed: the output is not sent.

        Costs no system call, and works in any thread.
        """
        return self.has_gone() or time.monotonic() >= self.deadline


@dataclass(frozen=True, slots=True)
class Done:
    """In a slot of what ``step`` returns: this was the last of its outputs."""

    output: Any = None  #: one more output, or a list of them; ``None`` if all have been sent


class Service:
    """Serves one model: subclass it and write ``predict``. One instance per worker process.

    Inputs may be checked before they reach ``predict``:

    * ``def predict(self, batch: list[MyStruct])`` with a msgspec ``Struct``, dataclass or
      ``TypedDict``: every input is decoded into that type, or refused with the wrong fields named;
    * a ``[signature]`` in ``model.toml`` (or ``self.signature`` set in ``load``): *batch* is a
      mapping of input name to one stacked ndarray of shape ``[n, *shape]``.

    In place of ``predict``, a service whose outputs come one by one has either of

    * ``def stream(self, input)``, a generator of the outputs of one input;
    * ``def admit(self, input)``, which returns a slot, any object; ``def step(self, slots)``,
      which returns a list with an entry for each slot in their order: an output, a list of
      outputs, ``None`` for nothing yet, ``Done`` for the end, or an exception, which ends
      that slot alone; and ``def evict(self, slot)``, called once when a slot ends, for
      whatever reason.

    Up to ``max_batch_size`` inputs run at once, and each takes one step in a turn.
    """

    #: the ``[signature]`` table of ``model.toml`` as a mapping; ``load`` may set what the
    #: file itself declares (an ONNX graph does)
    signature: Mapping[str, Any] | None = None

    #: names of request headers that ``Request.headers`` is to hold; no others leave the front-end
    request_headers: Sequence[str] = ()

    #: names of the parameters of the URL's query that ``Request.query`` is to hold
    request_query: Sequence[str] = ()

    def load(self, context: Context) -> None:
        """Read the weights. Called once, before anything else."""

    def predict(self, batch: Any) -> Any:
        """Answer one batch.

        :param batch: 1 to ``max_batch_size`` inputs in arrival order: a list, or with a
            signature a mapping of name to ndarray ``[n, ...]``.
        :return: one output per input, same order: a list, an ndarray of n rows, or with a
            signature a mapping of output name to ndarray of n rows. An ``InputError``
            *instance* in a slot refuses that input alone; a ``Response`` there sets the
            status and headers.
        :raises InputError, ClientError: refuse the whole batch.
        """
        raise NotImplementedError(f"{type(self).__name__} has no predict()")

    def preprocess(self, request: Request) -> Any:
        """Turn one request into one input. May raise ``InputError`` or ``ClientError``."""
        return request.input

    def postprocess(self, output: Any) -> Any:
        """Turn one output of ``predict`` into what the client gets; may return a ``Response``."""
        return output

    def store_assets(self, directory: Path) -> None:
        """Write each of ``[assets]`` that has no URL to ``directory / NAME``: a file or a folder.

        Runs in: a separate process that ``servekit assets`` starts, never a worker; nothing is
        loaded. After a failed attempt, the next one finds its files in *directory*. The content
        must be the same on every machine: it is compared with the SHA-256.
        """
        raise NotImplementedError(f"{type(self).__name__} has no store_assets()")

    def warm_up(self) -> None:
        """Run once after ``load``, before the replica is called ready."""

    def ping(self) -> None:
        """Raise if the service can no longer answer. Called now and then while idle."""

    def close(self) -> None:
        """Release what ``load`` took. Called once when the worker exits normally."""

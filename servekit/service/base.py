# SPDX-License-Identifier: Apache-2.0
"""The contract of a service: the arguments it gets, and the methods it has."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from servekit.service.calls import NO_CALLS, Caller, no_stand_in
from servekit.service.request import Request

if TYPE_CHECKING:
    import numpy as np

    from servekit.service.metrics import Metrics

__all__ = ["Context", "Done", "Service"]

T = TypeVar("T")


def _metrics() -> "Metrics":
    from servekit.service.metrics import (
        Metrics,
    )  # imports msgspec, which most importers of this module do not need

    return Metrics()


@dataclass(frozen=True, kw_only=True)
class Context:
    """Passed to ``Service.load``: the model and its environment. Runs in: worker."""

    model: str  #: the ``<model>`` of ``/<model>/predict``
    version: str
    directory: Path  #: the unpacked archive, read-only
    replica: int  #: index of this replica of the model, from 0
    max_batch_size: int  #: size of the largest batch that ``predict`` can get
    threads: int  #: CPU threads to use without slowing down other workers, at least 1
    options: Mapping[str, Any]  #: the ``[options]`` of ``model.toml``
    logger: Logger
    replicas: int = 1  #: number of replicas of this model or stage
    stage: str = ""  #: name of the stage; "" if the model has only one
    max_concurrency: int = 1  #: inputs that an async service can get at the same time
    rank: int = 0  #: of this process in its replica; 0 answers requests, the others follow
    world_size: int = 1  #: number of processes of this replica: ``ranks`` of ``model.toml``
    assets: Mapping[str, Path] = field(
        default_factory=dict
    )  #: paths of the ``[assets]`` in the cache
    metrics: "Metrics" = field(default_factory=_metrics, repr=False)
    read_requests: Callable[[], Sequence[Request]] = field(default=tuple, repr=False)
    caller: Caller = field(default=NO_CALLS, repr=False)

    @property
    def requests(self) -> Sequence[Request]:
        """The requests of the current batch, one for each input or row, in the same order.

        Created when accessed; empty while ``predict`` is not running.
        """
        return self.read_requests()

    def call(self, model: str, value: Any, request: Request | None = None) -> Any:
        """Return the output of another model of the server. Blocks; can be used in any thread.

        The call inherits the request id, trace, identity and deadline of *request*, and is dropped
        when its client disconnects. By default it is made for all ``requests``: with the last
        deadline, until all clients have disconnected.

        :param model: must be in ``calls`` of ``model.toml``.
        :param value: any value that a stage can return, arrays included.
        :raises CallError: there is no output; it has the status that a client would get.
        """
        return self.caller.call(model, value, [request] if request else self.requests)

    async def call_async(
        self,
        model: str,
        value: Any,
        request: Request | None = None,
    ) -> Any:
        """Do the same without blocking the running event loop of asyncio."""
        requests = [request] if request else self.requests
        return await self.caller.call_async(model, value, requests)

    def read_options(self, kind: type[T]) -> T:
        """Return ``options`` as *kind*, a msgspec ``Struct`` or a dataclass with all keys.

        :raises BootError: a key is unknown or missing, or a value has another type.
        """
        from servekit.service.options import read_options

        return read_options(self.options, kind)

    def asset(self, name: str) -> Path:
        """Return the path of ``[assets.NAME]``, read-only and shared with other models.

        :raises BootError: ``model.toml`` has no asset of this name.
        """
        from servekit.service.options import find_asset

        return find_asset(self.assets, name)

    def find_file(self, *suffixes: str, file: str = "") -> Path:
        """Return the path of the only file whose name ends in one of *suffixes*, ``".onnx"``.

        :param file: path relative to ``directory`` of the file to return instead.
        :raises BootError: the file does not exist, or there is not exactly one.
        """
        from servekit.service.options import find_file

        return find_file(self.directory, suffixes, file)

    def load_array(self, file: str) -> "np.ndarray[Any, Any]":
        """Return the array in a ``.npy`` file, read-only and mapped: replicas share its memory.

        :param file: path relative to ``directory``, such as ``weights.npy``.
        :raises BootError: it is not in ``directory``, or is not an array of numbers.
        """
        from servekit.service.weights import map_npy  # most processes map no weights

        return map_npy(self.directory, file)

    def load_safetensors(self, file: str) -> "dict[str, np.ndarray[Any, Any]]":
        """Return the arrays in a safetensors file by name, as ``load_array`` does.

        bfloat16 and float8 are dtypes of ml_dtypes, which has to be installed for them.

        :param file: path relative to ``directory``, such as ``model.safetensors``.
        :raises BootError: it is not in ``directory``, is not a safetensors file, or has an element
            type that NumPy does not know.
        """
        from servekit.service.weights import map_safetensors

        return map_safetensors(self.directory, file)


@dataclass(frozen=True, slots=True)
class Done:
    """Returned by ``step`` in the place of a slot that has finished."""

    output: Any = None  #: a last output, or a list of them; ``None`` for no further output


class Service:
    """Serves a model: subclass it and define ``predict``. Each worker has one instance.

    Inputs can be validated before they reach ``predict``:

    * ``def predict(self, batch: list[MyStruct])`` with a msgspec ``Struct``, dataclass or
      ``TypedDict``: every input is decoded into that type, or refused with the invalid fields;
    * a ``[signature]`` in ``model.toml`` (or ``self.signature`` set in ``load``): *batch* is a
      mapping of input name to one stacked ndarray of shape ``[n, *shape]``.

    A service that streams its outputs has, instead of ``predict``, one of these:

    * ``def stream(self, input)``, a generator of the outputs of one input;
    * ``def admit(self, input)``, which returns a slot, any object; ``def step(self, slots)``,
      which returns a list with an entry for each slot in the same order: an output, a list of
      outputs, ``None`` for no output yet, ``Done`` for the end, or an exception, which ends
      only that slot; and ``def evict(self, slot)``, called once when a slot ends, for any
      reason.

    Up to ``max_batch_size`` inputs are processed at once, and each takes one step per turn.

    A service is async if ``predict`` (or ``stream``, an async generator, or ``step``) and all of
    its endpoints are ``async def``. Then ``predict`` takes *one* input and returns its output, and
    up to ``max_concurrency`` inputs are processed at the same time on one event loop. The other
    methods can be ``async def`` too, or not.
    """

    #: the ``[signature]`` table of ``model.toml`` as a mapping; ``load`` can set it if the
    #: model file declares it (as an ONNX graph does)
    signature: Mapping[str, Any] | None = None

    #: the types of one input and of one output, for a ``predict`` without annotations: ``load`` can
    #: set them if they depend on the options or on the model file
    input_type: Any = None
    output_type: Any = None

    #: names of the request headers for ``Request.headers``; no others leave the front-end
    request_headers: Sequence[str] = ()

    #: the task of the model, such as ``chat``, which base classes of plugins set: a protocol made
    #: for one task serves only models with that task
    task: str = ""

    #: names of the URL parameters for ``Request.query``
    request_query: Sequence[str] = ()

    def load(self, context: Context) -> "Awaitable[None] | None":
        """Load the weights. Called once, before anything else."""

    def predict(self, batch: Any) -> Any:
        """Return the outputs of a batch.

        :param batch: 1 to ``max_batch_size`` inputs in arrival order: a list, or with a
            signature a mapping of names to ndarrays ``[n, ...]``.
        :return: one output for each input in the same order: a list, an ndarray with n rows, or
            with a signature a mapping of output names to ndarrays with n rows. An
            ``InputError`` *instance* in the place of an output refuses only that input; a
            ``Response`` sets the status and headers of its response.
        :raises InputError, ClientError: refuses the whole batch.
        """
        raise NotImplementedError(f"{type(self).__name__} has no predict()")

    def preprocess(self, request: Request) -> Any:
        """Return the input for a request; can raise ``InputError`` or ``ClientError``."""
        return request.input

    def postprocess(self, output: Any) -> Any:
        """Return what the client gets for an output of ``predict``; can be a ``Response``."""
        return output

    def stand_in(self, model: str, value: Any) -> Any:
        """Return an output in place of *model*, which ``Context.call`` asks for *value*.

        Called where no server runs: for examples and warm-up batches before a replica is ready, in
        ``servekit check`` and in ``servekit.testing.ServiceClient``.
        """
        return no_stand_in(model, value)

    def store_assets(self, directory: Path) -> None:
        """Write each of the ``[assets]`` without a URL to ``directory / NAME``, a file or folder.

        Runs in: a separate process of ``servekit assets``, never a worker; the service is not
        loaded. After a failed attempt, the next one finds the files in *directory*. The content
        must be the same on every machine, since it is compared with the SHA-256.
        """
        raise NotImplementedError(f"{type(self).__name__} has no store_assets()")

    def follow(self) -> None:
        """Take part in what rank 0 does, until rank 0 says that it is over.

        Called once after ``load`` in the ranks above 0 of a replica, which get no requests. If it
        returns or raises while rank 0 serves, the whole replica is restarted.
        """
        raise NotImplementedError(f"{type(self).__name__} has no follow()")

    def warm_up(self) -> "Awaitable[None] | None":
        """Called once after ``load``, before the replica is ready."""

    def ping(self) -> "Awaitable[None] | None":
        """Raise an exception if the service no longer works. Called now and then while idle."""

    def close(self) -> "Awaitable[None] | None":
        """Release what ``load`` acquired. Called once when the worker shuts down normally."""

# SPDX-License-Identifier: Apache-2.0
"""Frequent requests: one raw tensor with one row in, outputs of fixed shapes out.

What differs between such requests are the elements, and perhaps the id.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from servekit.extension import PlainRequest
from servekit_oip.grpc.wire import RAW_OUTPUTS, RESPONSE_ID, delimited, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servekit_oip.signature import ModelTensor, ModelTensors

    #: the id of a request, the outputs that it wants with their numbers of classes, whether its
    #: stream has to end with a response without outputs, and whether tensors have an axis of rows
    State = tuple[str, Sequence[tuple[str, int]], bool, bool]

__all__ = ["PlainMessages"]

MAX_KNOWN: Final = 64
NUMBERS: Final = tuple(map(np.dtype, "?bhilqBHILQefd"))


class KnownStart(NamedTuple):
    """A request up to its raw contents, which clients repeat."""

    size: int  #: bytes of the contents
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  #: without the axis of rows
    state: State


class PlainMessages:
    """Reads and writes such requests for one model; ``None`` stands for all others."""

    def __init__(self, tensors: ModelTensors, head: Callable[..., bytes]) -> None:
        """Serve the model with *tensors*.

        :param head: returns a response without contents, for outputs with datatypes and shapes.
        """
        inputs = [*tensors.inputs.values()] if tensors.takes_signature else []
        self._name = next(iter(tensors.inputs))
        self._dtype: np.dtype[Any] | None = None
        if len(inputs) == 1 and _is_of_bytes(inputs[0]):
            self._dtype = np.dtype(inputs[0].datatype.dtype).newbyteorder("<")
        outputs = [*tensors.outputs.values()]
        are_fixed = all(spec.datatype.size and -1 not in spec.shape for spec in outputs)
        can_write = tensors.gives_signature and are_fixed
        self._outputs = {spec.name: PlainOutput(spec) for spec in outputs} if can_write else {}
        self._head = head
        self._known: dict[bytes, KnownStart] = {}  #: by what precedes the contents, without id
        self._starts: dict[tuple[str, ...], bytes] = {}  #: of responses, by their outputs

    def remember(self, rest: bytes, shape: Sequence[int], state: State) -> None:
        """Remember a request that has been checked, if those like it are frequent.

        :param rest: the message without id and contents.
        :param shape: of its only tensor.
        """
        _, wanted, *_ = state
        are_plain = self._outputs and not any(classes for _, classes in wanted)
        size = math.prod(shape) * self._dtype.itemsize if self._dtype is not None else 0
        if shape[0] == 1 and size and are_plain:
            assert self._dtype is not None
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[rest] = KnownStart(size, self._dtype, tuple(shape[1:]), state)

    def read(self, body: bytes | memoryview) -> PlainRequest | None:
        """Return the request in *body*, with its ``State``.

        :raises ValueError: it is not a message.
        """
        if not self._known:
            return None
        rest, id_, contents = parts_of(body)
        known = self._known.get(rest)
        if known is None or len(contents) != 1 or len(contents[0]) != known.size:
            return None
        state = (id_, *known.state[1:]) if id_ else known.state
        array = np.frombuffer(contents[0], known.dtype).reshape(known.shape)
        return PlainRequest({self._name: array}, state)

    def write(self, states: Sequence[State], outputs: Sequence[Any]) -> list[bytes | None]:
        """Return the responses to requests with *states*."""
        if len(self._outputs) == 1 and dict not in set(map(type, outputs)):
            (form,) = self._outputs.values()
            columns = {form.name: form.contents(outputs)}
        else:
            columns = {
                name: form.contents([_of(output, name) for output in outputs])
                for name, form in self._outputs.items()
            }
        return [
            self._message(id_, wanted, columns, place)
            for place, (id_, wanted, *_) in enumerate(states)
        ]

    def _message(
        self,
        id_: str,
        wanted: Sequence[tuple[str, int]],
        columns: Mapping[str, Sequence[bytes | None]],
        place: int,
    ) -> bytes | None:
        if len(wanted) == 1 and not id_:  # the most frequent one
            ((name, _),) = wanted
            content = columns[name][place]
            start = self._starts.get((name,)) or self._start_of((name,))
            return None if content is None else start + self._outputs[name].tag + content
        contents = [columns[name][place] for name, _ in wanted]
        if None in contents:
            return None
        names = tuple(name for name, _ in wanted)
        parts = [self._starts.get(names) or self._start_of(names)]
        if id_:
            text = id_.encode()
            parts += (delimited(RESPONSE_ID, len(text)), text)
        for name, content in zip(names, contents, strict=True):
            parts += (self._outputs[name].tag, content)  # type: ignore[arg-type]  # none is missing
        return b"".join(parts)

    def _start_of(self, names: tuple[str, ...]) -> bytes:
        told = [self._outputs[name].told for name in names]
        if len(self._starts) >= MAX_KNOWN:
            self._starts.clear()
        start = self._starts[names] = self._head("", (), told)
        return start


class PlainOutput:
    """One output whose shape is fixed."""

    def __init__(self, spec: ModelTensor) -> None:
        """Prepare for *spec*."""
        self.name = spec.name
        self._dtype, self._shape = np.dtype(spec.datatype.dtype).newbyteorder("<"), spec.shape
        self._size = math.prod(spec.shape) * self._dtype.itemsize
        self.told = spec.name, spec.datatype.name, (1, *spec.shape)
        self.tag = delimited(RAW_OUTPUTS, self._size)
        #: dtypes that services may return in place of that of the output, and their classes
        self._dtypes = {each for each in NUMBERS if np.can_cast(each, self._dtype, "same_kind")}
        self._scalars = {each.type for each in self._dtypes}
        if np.dtype(float) in self._dtypes:
            self._scalars.add(float)

    def contents(self, values: Sequence[Any]) -> list[bytes | None]:
        """Return the elements of each of *values* as bytes; ``None``: they have to be looked at."""
        if not self._shape and set(map(type, values)) <= self._scalars:
            text, size = np.array(values, self._dtype).tobytes(), self._size
            return [text[at : at + size] for at in range(0, len(text), size)]
        return [self._content(value) for value in values]

    def _content(self, value: Any) -> bytes | None:
        is_array = isinstance(value, np.ndarray | np.generic)
        if not is_array or value.shape != self._shape or value.dtype not in self._dtypes:
            return None
        content: bytes = value.astype(self._dtype, copy=False).tobytes()
        return content


def _is_of_bytes(spec: ModelTensor) -> bool:
    """Whether any bytes are elements of *spec*."""
    return spec.datatype.size > 0 and spec.datatype.name != "BOOL"


def _of(output: Any, name: str) -> Any:
    return output.get(name) if type(output) is dict else None

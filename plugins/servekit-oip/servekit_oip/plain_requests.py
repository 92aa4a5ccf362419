# SPDX-License-Identifier: Apache-2.0
"""Requests with a single row, the most frequent ones: each is read in one step.

A small JSON has to be what a type of msgspec says, which is made for the model: names, datatypes,
shapes and elements are checked while it is read. Bytes are left to the model, which reads them as
at its native route. Every other request goes the way of those with many rows, which also says what
is wrong with it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType, defstruct

from servekit.errors import InputError
from servekit.extension import EncodedInput, ListInput, PlainRequest
from servekit_oip.messages import (
    ALL_BINARY,
    NO_PARAMETERS,
    USUAL,
    RequestParameters,
    wanted_outputs,
)
from servekit_oip.tensors import array_of, list_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from servekit.extension import Codecs
    from servekit_oip.signature import ModelTensor, ModelTensors
    from servekit_oip.tensors import Array

__all__ = ["PlainReader"]

#: the tensors of a request to its input
MakeInput: TypeAlias = "Callable[[Sequence[Any]], ListInput | dict[str, Array]]"

BINARY: Final = "application/octet-stream"
#: bytes of JSON: from here on most of the time goes into the numbers, and there are faster ways
LARGE: Final = 4096
NO_JSON: Final = "0"  #: the length of the JSON of a body that is nothing but bytes
MOST_DIGITS: Final = 19
TUPLE: Final[Any] = tuple  #: for types that are made here
#: an axis that the signature leaves open
ANY_SIZE: Final = Annotated[int, Meta(ge=0)]
BROKEN: Final = (ValueError, RecursionError)  #: every error of msgspec is the first


class PlainReader:
    """Reads the requests for one model; ``None`` stands for those that it cannot read."""

    def __init__(self, tensors: ModelTensors, codecs: Codecs) -> None:
        """Read the inputs of *tensors*."""
        specs = [*tensors.inputs.values()] if tensors.takes_signature else []
        types = [_lists_of(spec, codecs) for spec in specs]
        self._input = _input_maker(specs, are_lists=None not in types)
        if None in types:
            types = [list_of(spec.datatype, 1) for spec in specs]
        parts = zip(specs, types, strict=True)
        tensor_types = [_tensor(spec, ("data", lists)) for spec, lists in parts]
        output = _output(tensors.outputs)
        self._decode = _decoder(tensor_types, output) if specs else None
        can_be_raw = len(specs) == 1 and _can_be_raw(specs[0])
        self._raw = RawReader(specs[0], output) if can_be_raw else None

    def read(self, body: bytes | memoryview, length: str | None) -> PlainRequest | None:
        """Return the request in *body*, with a state as that of ``Infer``.

        :param length: of its JSON, if bytes follow it.
        """
        try:
            if length is not None:
                return self._raw.read(body, length) if self._raw is not None else None
            if self._decode is None or len(body) >= LARGE:
                return None
            asked = self._decode(body)
            state = USUAL
            if asked.id or asked.outputs or asked.parameters is not NO_PARAMETERS:
                state = asked.id, wanted_outputs(asked)
            return PlainRequest(self._input(asked.inputs), state)
        except (*BROKEN, OverflowError, InputError):
            return None


def _input_maker(specs: Sequence[ModelTensor], *, are_lists: bool) -> MakeInput:
    """Return what makes the input of tensors, in the order of the signature."""
    if not are_lists:
        return partial(_arrays, specs)
    if len(specs) == 1 and specs[0].shape:
        (name,) = (spec.name for spec in specs)
        return lambda tensors: ListInput({name: tensors[0].data})
    return partial(_lists, specs)


def _lists(specs: Sequence[ModelTensor], tensors: Sequence[Any]) -> ListInput:
    """Return numbers, and lists of a fixed length: the model makes arrays of whole batches."""
    return ListInput(
        {
            spec.name: tensor.data if spec.shape else tensor.data[0]
            for spec, tensor in zip(specs, tensors, strict=True)
        }
    )


def _arrays(specs: Sequence[ModelTensor], tensors: Sequence[Any]) -> dict[str, Array]:
    """Return the arrays by name.

    :raises ValueError: one has more or fewer elements than its shape.
    :raises OverflowError: an element is too large.
    """
    return {
        spec.name: array_of(spec.datatype, tensor.data).reshape(tensor.shape[1:])
        for spec, tensor in zip(specs, tensors, strict=True)
    }


class RawReader:
    """Reads bodies whose one input is bytes, with or without JSON before it."""

    def __init__(self, spec: ModelTensor, output: type) -> None:
        """Read the input *spec*.

        :param output: the type of an output that requests may ask for.
        """
        self._spec = spec
        sizes = [size for size in spec.shape if size != -1]
        self._row_bytes = math.prod(sizes) * spec.datatype.size  #: with open axes of 1
        self._decode = _decoder([_tensor(spec, ("parameters", BinaryParameters))], output)

    def read(self, body: bytes | memoryview, length: str) -> PlainRequest | None:
        """Return the request in *body*.

        :param length: of its JSON, as the client says.
        :raises ValueError: the JSON is not what it should be; or ``InputError``.
        """
        if length == NO_JSON:
            return self._of(body, len(body), ("", ALL_BINARY))
        if not (length.isascii() and length.isdigit() and len(length) < MOST_DIGITS):
            return None
        at = int(length)
        if not 0 < at <= len(body):
            return None
        asked = self._decode(body[:at])
        (tensor,), state = asked.inputs, (asked.id, wanted_outputs(asked))
        size = math.prod(tensor.shape) * self._spec.datatype.size
        is_whole = size == tensor.parameters.binary_data_size
        return self._of(body[at:], size, state) if is_whole else None

    def _of(self, content: bytes | memoryview, size: int, state: Any) -> PlainRequest | None:
        rows, rest = divmod(size, self._row_bytes)
        if rest or size != len(content) or not rows or (rows > 1 and -1 not in self._spec.shape):
            return None
        return PlainRequest(EncodedInput(BINARY, content), state)


class PlainOutputParameters(msgspec.Struct, frozen=True):
    """The parameters of an output whose elements are all sent."""

    binary_data: bool | None = None
    classification: Literal[0] = 0
    shared_memory_region: None = None


class BinaryParameters(msgspec.Struct, frozen=True):
    """The parameters of an input that follows the JSON."""

    binary_data_size: int
    shared_memory_region: UnsetType = UNSET


def _can_be_raw(spec: ModelTensor) -> bool:
    """Whether the number of bytes of a row determines its shape, and any bytes will do."""
    is_number = spec.datatype.size > 0 and spec.datatype.name != "BOOL"
    return is_number and spec.shape.count(-1) < 2 and 0 not in spec.shape


def _lists_of(spec: ModelTensor, codecs: Codecs) -> Any:
    """Return the type of the data of a row that are left as lists; ``None`` if they are not.

    A number comes as a list, since its tensor has an axis for rows.
    """
    found: Any = codecs.list_type(spec.datatype.dtype, spec.shape) if len(spec.shape) < 2 else None
    return found if spec.shape or found is None else TUPLE[found]


def _tensor(spec: ModelTensor, content: tuple[str, Any]) -> type:
    """Return the type of a tensor with one row.

    :param content: name and type of the member that says where its elements are.
    """
    sizes = [ANY_SIZE if size == -1 else Literal[size] for size in spec.shape]
    others = [name for name in ("parameters", "data") if name != content[0]]
    return defstruct(
        "PlainTensor",
        [
            ("name", Literal[spec.name]),
            ("datatype", Literal[spec.datatype.name]),
            ("shape", TUPLE[Literal[1], *sizes]),
            content,
            *((name, UnsetType, UNSET) for name in others),
        ],
        gc=False,
    )


def _output(names: Iterable[str]) -> type:
    """Return the type of an output that a request asks for: one of *names*."""
    return defstruct(
        "PlainRequestedOutput",
        [
            ("name", Literal[*names]),
            ("parameters", PlainOutputParameters, PlainOutputParameters()),
        ],
        gc=False,
    )


def _decoder(tensors: Sequence[type], output: type) -> Any:
    """Return what reads the JSON of a request.

    :param tensors: the types of its inputs.
    :param output: the type of an output that it may ask for.
    """
    request = defstruct(
        "PlainInferRequest",
        [
            ("inputs", TUPLE[*tensors]),
            ("id", str, ""),
            ("parameters", RequestParameters, NO_PARAMETERS),
            ("outputs", tuple[output, ...], ()),  # type: ignore[valid-type]
        ],
        gc=False,
    )
    return msgspec.json.Decoder(request).decode

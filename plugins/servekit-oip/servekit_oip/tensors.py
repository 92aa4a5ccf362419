# SPDX-License-Identifier: Apache-2.0
"""One tensor: from the bytes or the JSON of a client to an array, and back; for all transports."""

from __future__ import annotations

import math
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
import numpy as np

from servekit.errors import InputError
from servekit_oip.numbers import read_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from servekit_oip.datatypes import Datatype

__all__ = [
    "Array",
    "array_of",
    "from_buffer",
    "from_json",
    "from_values",
    "list_of",
    "to_buffer",
    "to_texts",
]

Array = np.ndarray[Any, Any]

TEXT: Final = "str"  #: the dtype of BYTES that are UTF-8
LENGTH: Final = Struct("<I")  #: before each element of BYTES
#: a number has to stay below this, so that it does not round to infinity
FINITE: Final = {
    "FP16": 65520.0,
    "BF16": 2.0**128 - 2.0**119 - 2.0**103,
    "FP32": 2.0**128 - 2.0**103,
}
#: raised by msgspec for JSON that is malformed, not UTF-8, too deep, or has too large a number
BROKEN: Final = (ValueError, RecursionError)
MOST: Final = 2**63 - 1  #: the largest bound of integers that msgspec checks


# ------------------------------------------------------------ bytes


def from_buffer(
    name: str, datatype: Datatype, shape: Sequence[int], content: bytes | memoryview
) -> Array:
    """Return the tensor *name* over *content*, its little-endian elements; read-only.

    BYTES are objects of ``str``, or of ``bytes`` if that is the dtype of *datatype*.

    :raises InputError: *content* has another size, or elements that cannot be.
    """
    count = math.prod(shape)
    if not datatype.size:
        elements = _read_elements(name, datatype, content, count)
        return array_of(datatype, elements).reshape(shape)
    if len(content) != count * datatype.size:
        expected = str(count * datatype.size)[:40]
        raise InputError(f"input {name!r}: {len(content)} bytes, expected {expected}")
    if not count:
        return np.empty(shape, datatype.dtype)
    if datatype.name == "BOOL" and np.frombuffer(content, np.uint8).max() > 1:
        raise InputError(f"input {name!r}: an element of BOOL is a byte other than 0 and 1")
    return np.frombuffer(content, np.dtype(datatype.dtype).newbyteorder("<")).reshape(shape)


def _read_elements(
    name: str, datatype: Datatype, content: bytes | memoryview, count: int
) -> list[Any]:
    elements, at = list[Any](), 0
    is_text = datatype.dtype == TEXT
    if count * LENGTH.size > len(content):
        raise InputError(f"input {name!r}: {len(content)} bytes hold fewer elements than its shape")
    for _ in range(count):
        start = at + LENGTH.size
        if start > len(content):
            raise InputError(f"input {name!r}: ends before its last element")
        at = start + LENGTH.unpack_from(content, at)[0]
        if at > len(content):
            raise InputError(f"input {name!r}: an element is longer than the rest of the tensor")
        element = content[start:at]
        elements.append(_text(name, element) if is_text else bytes(element))
    if at != len(content):
        raise InputError(f"input {name!r}: {len(content) - at} bytes after its last element")
    return elements


def _text(name: str, content: bytes | memoryview) -> str:
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"input {name!r}: an element is not UTF-8") from None


def to_buffer(datatype: Datatype, array: Array) -> bytes | memoryview:
    """Return the elements of *array* as the protocol sends them; a view if it has them so."""
    if not datatype.size:
        texts = to_texts(array)
        return b"".join(part for text in texts for part in (LENGTH.pack(len(text)), text))
    plain = np.ascontiguousarray(array, np.dtype(datatype.dtype).newbyteorder("<"))
    return plain.reshape(-1).view(np.uint8).data if plain.size else b""


def to_texts(array: Array) -> list[bytes]:
    """Return the elements of BYTES, which are ``str`` or ``bytes``."""
    elements = array.reshape(-1).tolist()
    return [each if isinstance(each, bytes) else str(each).encode() for each in elements]


# ------------------------------------------------------------ values


def from_values(
    name: str, datatype: Datatype, shape: Sequence[int], values: Iterable[Any]
) -> Array:
    """Return the tensor *name* with *values*, a flat list of its elements as protobuf has them.

    Integers may be out of the range of *datatype*; other elements are of its kind. Elements of
    BYTES are ``bytes``.

    :raises InputError: an element does not fit, or there are too many or too few.
    """
    elements = list(values)
    if datatype.dtype == TEXT:
        elements = [_text(name, element) for element in elements]
    elif np.dtype(_dtype(datatype)).kind in "iu":
        elements = _checked(name, datatype, elements)
    return _shaped(name, datatype, shape, elements)


def _checked(name: str, datatype: Datatype, values: list[Any]) -> list[Any]:
    """Return *values* if they may be elements of *datatype* in JSON.

    :raises InputError: they may not.
    """
    try:
        return cast("list[Any]", msgspec.convert(values, list_of(datatype, 1)))
    except msgspec.ValidationError as error:
        raise InputError(f"input {name!r}: {_reason(error)}") from None


def from_json(name: str, datatype: Datatype, shape: Sequence[int], text: msgspec.Raw) -> Array:
    """Return the tensor *name* of the JSON *text*: a list of its elements, flat or nested.

    How the lists nest does not matter; only the number of elements does.

    :raises InputError: an element is not of *datatype*, or there are too many or too few.
    """
    found = read_numbers(datatype, text)
    if found is not None:
        return _reshaped(name, shape, found)
    try:
        values = _decoder(datatype, 1)(text)
    except msgspec.ValidationError as error:
        return _from_nested(name, datatype, shape, text, error)
    except BROKEN as error:
        raise InputError(f"input {name!r}: {_reason(error)}") from None
    return _of_json(name, datatype, shape, values)


def _of_json(name: str, datatype: Datatype, shape: Sequence[int], values: list[Any]) -> Array:
    """Return the tensor of *values*, whose elements of BYTES are ``str``."""
    if not datatype.size and datatype.dtype != TEXT:
        values = [text.encode() for text in values]
    return _shaped(name, datatype, shape, values)


def _from_nested(
    name: str, datatype: Datatype, shape: Sequence[int], text: msgspec.Raw, error: Exception
) -> Array:
    """Return the tensor of lists of lists.

    :param error: why *text* is not a flat list of elements.
    """
    if len(shape) > 1 and datatype.size:
        try:
            array = np.array(_decoder(datatype, len(shape))(text), _dtype(datatype))
            if array.shape == tuple(shape):
                return array
        except ValueError:  # msgspec's errors are some; and lists of different lengths
            pass
    try:
        values = msgspec.json.decode(text)
    except BROKEN as broken:
        raise InputError(f"input {name!r}: {_reason(broken)}") from None
    if not isinstance(values, list) or not any(isinstance(each, list) for each in values):
        raise InputError(f"input {name!r}: {_reason(error)}") from None
    return _of_json(name, datatype, shape, _checked(name, datatype, _flat(values)))


def _flat(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    pending = [iter(values)]
    while pending:
        for each in pending[-1]:
            if isinstance(each, list):
                pending.append(iter(each))
                break
            found.append(each)
        else:
            pending.pop()
    return found


def _shaped(name: str, datatype: Datatype, shape: Sequence[int], values: list[Any]) -> Array:
    if len(values) != math.prod(shape):
        raise _wrong_count(name, len(values), shape)
    try:
        return array_of(datatype, values).reshape(shape)
    except OverflowError:
        raise InputError(f"input {name!r}: an element does not fit {datatype.name}") from None


def _reshaped(name: str, shape: Sequence[int], flat: Array) -> Array:
    if flat.size != math.prod(shape):
        raise _wrong_count(name, flat.size, shape)
    return flat.reshape(shape)


def _wrong_count(name: str, found: int, shape: Sequence[int]) -> InputError:
    expected = f"{str(math.prod(shape))[:40]} of shape {str(list(shape))[:80]}"
    return InputError(f"input {name!r}: {found} elements, expected {expected}")


def array_of(datatype: Datatype, values: list[Any]) -> Array:
    """Return the flat array of *values*, which are elements of *datatype*.

    :raises OverflowError: one is too large for it.
    """
    return np.array(values, _dtype(datatype))


def _dtype(datatype: Datatype) -> Any:
    return datatype.dtype if datatype.size else object


@cache
def _decoder(datatype: Datatype, depth: int) -> Callable[[Any], Any]:
    return msgspec.json.Decoder(list_of(datatype, depth)).decode


@cache
def list_of(datatype: Datatype, depth: int) -> Any:
    """Return the type of *depth* nested lists with elements of *datatype*."""
    nested: Any = {"b": bool, "f": float, "O": str}.get(np.dtype(_dtype(datatype)).kind)
    if datatype.name in FINITE:
        limit = FINITE[datatype.name]
        nested = Annotated[float, msgspec.Meta(gt=-limit, lt=limit)]
    elif nested is None:
        info = np.iinfo(datatype.dtype)
        most = int(info.max) if info.max <= MOST else None
        nested = Annotated[int, msgspec.Meta(ge=int(info.min), le=most)]
    for _ in range(depth):
        nested = list[nested]
    return nested


def _reason(error: Exception) -> str:
    return str(error).replace("`", "")

# SPDX-License-Identifier: Apache-2.0
"""Turns bytes that a client describes into arrays, believing nothing it says."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from servekit.errors import BodyMalformed, ResultNotEncodable

__all__ = [
    "DTYPES",
    "MAX_DIMENSIONS",
    "Lists",
    "as_lists",
    "check_lists",
    "from_bytes",
    "is_array",
    "to_little_endian",
]

#: the element types that cross the wire: numbers, never objects
DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
MAX_DIMENSIONS = 32
#: lists that an array may claim to be made of, beyond what the size of its body allows. Without
#: elements it takes no bytes, whatever its shape says: [10_000_000, 0] is ten million lists
SPARE_LISTS = 1 << 16
LISTS_PER_BYTE = 2
#: the same of an output, per element
SPARE_OUTPUT_LISTS = 1 << 20
LISTS_PER_ELEMENT = 4


class Lists:
    """Counts the lists that the arrays of one body stand for, before anybody makes them."""

    __slots__ = ("_left", "_size")

    def __init__(self, size: int) -> None:
        """Allow what a body of *size* bytes may hold."""
        self._size = size
        self._left = SPARE_LISTS + LISTS_PER_BYTE * size

    def count(self, shape: Sequence[int]) -> None:
        """Count an array of *shape*, which ``from_bytes`` has checked.

        :raises BodyMalformed: it is one too many.
        """
        self._left -= list_count(shape)
        if self._left < 0:
            limit = SPARE_LISTS + LISTS_PER_BYTE * self._size
            shown = str(list(shape))[:80]
            raise BodyMalformed(
                f"array: shape {shown} makes more lists than a body of {self._size} bytes may "
                f"hold, limit {limit}"
            )


def list_count(shape: Sequence[int]) -> int:
    """Return how many lists an array of *shape* is made of once it is lists in lists."""
    count, made = 0, 1
    for size in shape:
        count += made
        made *= size
    return count


def from_bytes(
    dtype: np.dtype[Any],
    shape: Sequence[Any],
    body: bytes | memoryview,
    offset: int = 0,
    order: Any = "C",
) -> np.ndarray[Any, Any]:
    """Return a read-only array over *body*, which it must fill exactly.

    :raises BodyMalformed: *shape* is no shape, or not that of *body*.
    """
    if len(shape) > MAX_DIMENSIONS:
        raise BodyMalformed(f"array: {len(shape)} axes, limit {MAX_DIMENSIONS}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise BodyMalformed("array: an axis is not a whole number of at least 0")
    expected, found = math.prod(shape) * dtype.itemsize, len(body) - offset
    if expected != found:
        raise BodyMalformed(f"array: {found} bytes, its dtype and shape need {str(expected)[:40]}")
    try:
        flat = np.frombuffer(body, dtype, offset=offset, count=math.prod(shape))
        array = flat.reshape(shape, order=order)
    except (ValueError, OverflowError):  # an axis of 0 beside one of 2**63
        raise BodyMalformed("array: its shape is over what an array can have") from None
    if dtype.kind == "b" and not are_booleans(flat):
        raise BodyMalformed("array: an element of dtype bool is a byte other than 0 and 1")
    return array


def are_booleans(flat: np.ndarray[Any, Any]) -> bool:
    """Whether every byte of *flat*, an array of booleans, is 0 or 1."""
    return not flat.size or bool(flat.view(np.uint8).max() <= 1)


def is_array(value: Any) -> bool:
    """Whether *value* is an array or a scalar of numpy with a dtype that crosses the wire."""
    numpy = sys.modules.get("numpy")
    is_numpy = numpy is not None and isinstance(value, np.ndarray | np.generic)
    return is_numpy and value.dtype.name in DTYPES


def to_little_endian(array: Any) -> np.ndarray[Any, Any]:
    """Return *array* in C order and the byte order of the wire; a view where it is already.

    :raises ResultNotEncodable: it has more axes than the other side takes.
    """
    if np.ndim(array) > MAX_DIMENSIONS:
        raise ResultNotEncodable(
            f"output: an array of {np.ndim(array)} axes, limit {MAX_DIMENSIONS}"
        )
    plain = np.ascontiguousarray(array, DTYPES[array.dtype.name]).reshape(np.shape(array))
    if plain.dtype.kind == "b" and not are_booleans(plain.reshape(-1)):
        return np.not_equal(plain.view(np.uint8), 0)
    return plain


def as_lists(array: Any) -> Any:
    """Return *array*, of numpy, as lists of Python's numbers.

    :raises ResultNotEncodable: it is made of lists rather than of elements.
    """
    check_lists(array)
    return array.tolist()


def check_lists(array: Any) -> None:
    """Refuse an *array* of an output that is made of lists rather than of elements.

    :raises ResultNotEncodable: it is.
    """
    if array.ndim > 1 and list_count(array.shape) > max(
        SPARE_OUTPUT_LISTS, LISTS_PER_ELEMENT * array.size
    ):
        shown = str(list(array.shape))[:80]
        raise ResultNotEncodable(
            f"output: an array of shape {shown} makes {list_count(array.shape)} lists, limit "
            f"{SPARE_OUTPUT_LISTS} or {LISTS_PER_ELEMENT} for each element"
        )

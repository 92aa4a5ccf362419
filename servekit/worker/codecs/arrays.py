# SPDX-License-Identifier: Apache-2.0
"""Makes arrays of bytes that a client describes, and checks every claim before it is used."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from servekit.errors import BodyMalformed, ResultNotEncodable
from servekit.types.arrays import EXTENDED, extended_dtype

__all__ = [
    "DTYPES",
    "MAX_DIMENSIONS",
    "SPARE_LISTS",
    "USER_DEFINED",
    "Array",
    "Lists",
    "as_lists",
    "check_lists",
    "dtype_of",
    "from_bytes",
    "is_array",
    "list_count",
    "to_little_endian",
    "widened",
]

Array = np.ndarray[Any, Any]

#: the element types that are sent: numbers, never objects
DTYPES: Final = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
MAX_DIMENSIONS: Final = 32
USER_DEFINED: Final = 2  #: ``isbuiltin`` of a dtype that another library has added to NumPy
#: lists that the arrays of a body may consist of, beyond a number for each byte. An array without
#: elements takes no bytes, whatever its shape: [10_000_000, 0] stands for ten million lists
SPARE_LISTS: Final = 1 << 16
LISTS_PER_BYTE: Final = 2
#: the limits of an output
SPARE_OUTPUT_LISTS: Final = 1 << 20
LISTS_PER_ELEMENT: Final = 4


class Lists:
    """Counts the lists that the arrays of one body stand for, before they are made."""

    __slots__ = ("_left", "_size")

    def __init__(self, size: int) -> None:
        """Allow as many as a body of *size* bytes may hold."""
        self._size = size
        self._left = SPARE_LISTS + LISTS_PER_BYTE * size

    def count(self, shape: Sequence[int]) -> None:
        """Count an array of *shape*, which ``from_bytes`` has checked.

        :raises BodyMalformed: the arrays of the body consist of too many lists.
        """
        self._left -= list_count(shape)
        if self._left < 0:
            limit = SPARE_LISTS + LISTS_PER_BYTE * self._size
            raise BodyMalformed(
                f"array: shape {str(list(shape))[:80]} makes more lists than a body of "
                f"{self._size} bytes may hold, limit {limit}"
            )


def dtype_of(name: str) -> np.dtype[Any] | None:
    """Return the little-endian dtype of *name*; ``None`` if such elements are not sent.

    :raises BodyMalformed: it needs ml_dtypes, which is not installed.
    """
    if name not in EXTENDED:
        return DTYPES.get(name)
    try:
        return extended_dtype(name)
    except ImportError as error:
        raise BodyMalformed(f"array: {error}") from None


def list_count(shape: Sequence[int]) -> int:
    """Return how many lists an array of *shape* consists of as nested lists."""
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
) -> Array:
    """Return a read-only array over *body*, which it must fill exactly; aligned, if need be a copy.

    :raises BodyMalformed: *shape* is not a shape, or not that of *body*.
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
        if not flat.flags.aligned:  # native code may rely on it
            flat = flat.copy()
            flat.flags.writeable = False
        array = flat.reshape(shape, order=order)
    except (ValueError, OverflowError):  # an axis of 0 beside one of 2**63
        raise BodyMalformed("array: its shape is larger than an array can have") from None
    if dtype.kind == "b" and not are_booleans(flat):
        raise BodyMalformed("array: an element of dtype bool is a byte other than 0 and 1")
    return array


def are_booleans(flat: Array) -> bool:
    """Whether every byte of *flat*, an array of booleans, is 0 or 1."""
    return not flat.size or bool(flat.view(np.uint8).max() <= 1)


def is_array(value: Any) -> bool:
    """Whether *value* is an array or a scalar of numpy with a dtype that can be sent."""
    if not isinstance(value, np.ndarray | np.generic):
        return False
    return value.dtype.name in DTYPES or value.dtype.name in EXTENDED


def to_little_endian(array: Any) -> Array:
    """Return *array* in C order and little-endian; a view if it already is.

    :raises ResultNotEncodable: it has more axes than a reader accepts.
    """
    if np.ndim(array) > MAX_DIMENSIONS:
        raise ResultNotEncodable(
            f"output: an array of {np.ndim(array)} axes, limit {MAX_DIMENSIONS}"
        )
    dtype = DTYPES.get(array.dtype.name, array.dtype)
    plain = np.ascontiguousarray(array, dtype).reshape(np.shape(array))
    if plain.dtype.kind == "b" and not are_booleans(plain.reshape(-1)):
        return np.not_equal(plain.view(np.uint8), 0)
    return plain


def as_lists(array: Any) -> Any:
    """Return *array*, of numpy, as nested lists of Python's numbers.

    :raises ResultNotEncodable: it consists of far more lists than elements.
    """
    check_lists(array)
    return widened(array).tolist()


def widened(array: Any) -> Any:
    """Return *array* as float32 if its elements are of ml_dtypes; their values do not change."""
    if array.dtype.isbuiltin != USER_DEFINED or array.dtype.name not in EXTENDED:
        return array
    return array.astype(np.float32)


def check_lists(array: Any) -> None:
    """Refuse an *array* of an output that consists of far more lists than elements.

    :raises ResultNotEncodable: it does.
    """
    most = max(SPARE_OUTPUT_LISTS, LISTS_PER_ELEMENT * array.size)
    if array.ndim > 1 and (count := list_count(array.shape)) > most:
        raise ResultNotEncodable(
            f"output: an array of shape {str(list(array.shape))[:80]} makes {count} lists, limit "
            f"{SPARE_OUTPUT_LISTS} or {LISTS_PER_ELEMENT} for each element"
        )

# SPDX-License-Identifier: Apache-2.0
"""Turns bytes that a client describes into arrays, believing nothing it says."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from servekit.errors import BodyMalformed

__all__ = ["DTYPES", "MAX_DIMENSIONS", "from_bytes", "is_array", "to_little_endian"]

#: the element types that cross the wire: numbers, never objects
DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
MAX_DIMENSIONS = 32


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
        return flat.reshape(shape, order=order)
    except (ValueError, OverflowError):  # an axis of 0 beside one of 2**63
        raise BodyMalformed("array: its shape is over what an array can have") from None


def is_array(value: Any) -> bool:
    """Whether *value* is an array or a scalar of numpy with a dtype that crosses the wire."""
    numpy = sys.modules.get("numpy")
    is_numpy = numpy is not None and isinstance(value, np.ndarray | np.generic)
    return is_numpy and value.dtype.name in DTYPES


def to_little_endian(array: Any) -> np.ndarray[Any, Any]:
    """Return *array* in C order and the byte order of the wire; a view where it is already."""
    return np.ascontiguousarray(array, DTYPES[array.dtype.name]).reshape(np.shape(array))

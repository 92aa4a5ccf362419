# SPDX-License-Identifier: Apache-2.0
"""Writes arrays and scalars of numpy as JSON, in the fewest digits that their dtype needs.

A float32 of 0.1 is written ``0.1``. ``tolist`` would make the float64 0.10000000149011612 of it,
which is twice as long, slower to write, and the same float32 when it is read.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from servekit.worker.codecs.arrays import MAX_DIMENSIONS, as_lists, check_lists, widened

__all__ = ["writer_of"]

INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: without booleans, whose bytes may be other than 0 and 1, and long doubles
DTYPES: Final = frozenset(map(np.dtype, (*INTEGERS, "float16", "float32", "float64")))
#: Python's numbers are as precise, and msgspec writes them faster
NATIVE: Final = frozenset(map(np.dtype, (*INTEGERS, "float64")))


def writer_of(kind: type) -> Callable[[Any], Any] | None:
    """Return the function that makes JSON of values of *kind*; it writes NaN as ``null``."""
    if kind in {dtype.type for dtype in DTYPES}:
        is_native = kind in {dtype.type for dtype in NATIVE}
        return kind.item if is_native else _write
    return _write_array if kind is np.ndarray else None


def _write(value: Any) -> msgspec.Raw:
    return msgspec.Raw(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


def _write_array(array: Any) -> Any:
    """Return the JSON of *array*, or lists if its elements are not plain numbers.

    :raises ResultNotEncodable: it consists of far more lists than elements.
    """
    native = array.dtype.newbyteorder("=")
    if native not in DTYPES or array.ndim > MAX_DIMENSIONS:
        plain = widened(array)
        return as_lists(array) if plain is array else _write_array(plain)
    if not array.ndim:
        return _write(array[()])
    check_lists(array)
    return _write(np.ascontiguousarray(array, native))

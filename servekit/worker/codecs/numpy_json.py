# SPDX-License-Identifier: Apache-2.0
"""Arrays and scalars of numpy as JSON texts, in the fewest digits that their dtype needs.

A float32 of 0.1 is written ``0.1``: what ``tolist`` makes of it is the float64
0.10000000149011612, twice as long and slower to write, and the same float32 to whoever reads it.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from servekit.worker.codecs.arrays import as_lists, check_lists

__all__ = ["writer_of"]

MOST_AXES: Final = 32
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: no booleans, whose bytes may be others than 0 and 1, and no long doubles
DTYPES: Final = frozenset(map(np.dtype, (*INTEGERS, "float16", "float32", "float64")))
SCALARS: Final = frozenset(dtype.type for dtype in DTYPES)


def writer_of(kind: type) -> Callable[[Any], Any] | None:
    """Return what makes JSON of values of *kind*; NaN and infinity become ``null``."""
    if kind in SCALARS:
        return _text
    return _array if kind is np.ndarray else None


def _text(value: Any) -> msgspec.Raw:
    return msgspec.Raw(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


def _array(array: Any) -> Any:
    """Return the text of *array*, or lists where its elements are not plain numbers.

    :raises ResultNotEncodable: it is made of lists rather than of elements.
    """
    native = array.dtype.newbyteorder("=")
    if native not in DTYPES or array.ndim > MOST_AXES:
        return as_lists(array)
    if not array.ndim:
        return _text(array[()])
    check_lists(array)
    return _text(np.ascontiguousarray(array, native))

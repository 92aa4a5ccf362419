# SPDX-License-Identifier: Apache-2.0
"""Values as msgpack; an array is extension type 78, which holds ``[dtype, shape, elements]``.

numpy is used if it is installed: an array that arrives without it becomes lists of numbers.
bfloat16 and float8 need ml_dtypes as well.
"""

import struct
import sys
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import msgpack

__all__ = ["pack", "unpack"]

ARRAY: Final = 78
#: dtype to its code in ``struct``
CODES: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}
#: element types of ml_dtypes
EXTENDED: Final = (
    *("bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def pack(value: Any) -> bytes:
    """Return *value* as msgpack; a numpy scalar is a number, an array an extension.

    :raises TypeError: it holds what cannot be sent, a set say, or an array of objects.
    """
    return bytes(msgpack.packb(value, default=_plain))


def unpack(body: bytes) -> Any:
    """Return the value of *body*; its arrays belong to the caller, who may change them.

    :raises ValueError: it is not msgpack, or an array in it is malformed.
    """
    try:
        return msgpack.unpackb(body, ext_hook=_extension, timestamp=3, strict_map_key=False)
    except (TypeError, OverflowError, struct.error) as error:
        raise ValueError(str(error)) from error


def _plain(value: Any) -> Any:
    """Return what msgpack does not know in terms of what it knows."""
    numpy = sys.modules.get("numpy")  # a caller that has an array has imported it
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
        raise TypeError(f"a {type(value).__name__} cannot be sent")
    if isinstance(value, numpy.generic) or value.dtype.kind == "U":
        return value.tolist()  # an array of strings becomes a list of strings
    name = value.dtype.name
    if name in CODES:
        value = value.astype(value.dtype.newbyteorder("<"), copy=False)
    elif name not in EXTENDED:
        raise TypeError(f"an array of {name} cannot be sent; known are {', '.join(CODES)}")
    return msgpack.ExtType(ARRAY, msgpack.packb([name, value.shape, value.tobytes()]))


def _extension(code: int, payload: bytes) -> Any:
    if code != ARRAY:
        raise ValueError(f"unknown extension type {code}")
    dtype, shape, elements = msgpack.unpackb(payload)
    if dtype in EXTENDED:
        return _extended(dtype, shape, elements)
    if dtype not in CODES:
        raise ValueError(f"array: unknown dtype {dtype!r}")
    try:
        import numpy as np
    except ImportError:
        return _nested(struct.unpack(f"<{prod(shape)}{CODES[dtype]}", elements), shape)
    return np.frombuffer(bytearray(elements), np.dtype(dtype).newbyteorder("<")).reshape(shape)


def _extended(dtype: str, shape: Sequence[int], elements: bytes) -> Any:
    try:
        import ml_dtypes
        import numpy as np
    except ImportError as error:
        raise ValueError(f"array: {dtype} needs ml_dtypes, pip install ml_dtypes") from error
    return np.frombuffer(bytearray(elements), getattr(ml_dtypes, dtype)).reshape(shape)


def _nested(numbers: Sequence[Any], shape: Sequence[int]) -> Any:
    """Return *numbers* as lists in lists; a shape without axes is one number."""
    if len(shape) < 2:
        return list(numbers) if shape else numbers[0]
    step = len(numbers) // max(1, shape[0])
    return [_nested(numbers[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]

# SPDX-License-Identifier: Apache-2.0
"""``application/x-npy``: one array in numpy's own file format, without pickles."""

import io
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format

from servekit.errors import BodyMalformed, ResultNotEncodable
from servekit.worker.codecs import arrays
from servekit.worker.codecs.arrays import DTYPES, Array, is_array, widened
from servekit.worker.codecs.foreign_arrays import as_array

__all__ = ["NpyCodec", "codec"]

MAX_HEADER_BYTES: Final = 4096
READ_HEADER: Final = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}
VERSION_1: Final = b"\x01\x00"
VERSION_1_BYTES: Final = 10  #: magic, version, length of the header
REMEMBERED_BYTES: Final = 256

#: shape, whether columns come first, element type, offset of the elements
Header = tuple[Any, bool, np.dtype[Any], int]


class NpyCodec:
    """Decodes to a read-only array over the body; encodes arrays, and lists of numbers."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Array:  # noqa: ARG002
        """Return the array of *body*, a ``.npy`` file of numbers."""
        if not body:
            raise BodyMalformed("body: empty")
        shape, is_fortran, dtype, start = _read_header(body)
        if dtype.hasobject or dtype.name not in DTYPES:
            raise BodyMalformed(f"array: dtype {str(dtype)[:40]} is not one of {', '.join(DTYPES)}")
        array = arrays.from_bytes(dtype, shape, body, start, "F" if is_fortran else "C")
        if not array.size or array.ndim > 2:
            arrays.Lists(len(body)).count(shape)
        return array

    def encode(self, output: Any) -> bytes:
        """Return *output*, an array or numbers that make one, as a ``.npy`` file.

        The format has no bfloat16 and no float8: they become float32.
        """
        array = arrays.to_little_endian(output if is_array(output) else _as_array(output))
        file = io.BytesIO()
        npy_format.write_array(file, widened(array), version=(1, 0), allow_pickle=False)
        return file.getvalue()


def _read_header(body: bytes | memoryview) -> Header:
    """Return the header of *body*. Headers are remembered, as clients repeat them."""
    end = VERSION_1_BYTES + int.from_bytes(body[8:10], "little")
    if body[6:8] == VERSION_1 and end <= REMEMBERED_BYTES:
        return _remembered(bytes(body[:end]))
    return _parse(bytes(body[: 2 * MAX_HEADER_BYTES]))


def _parse(start: bytes) -> Header:
    file = io.BytesIO(start)
    try:
        read = READ_HEADER[npy_format.read_magic(file)]
        shape, is_fortran, dtype = read(file, max_header_size=MAX_HEADER_BYTES)
    except KeyError:
        raise BodyMalformed("body: not version 1.0 or 2.0 of the .npy format") from None
    except Exception:  # noqa: BLE001 - the header is a Python literal, so it may raise anything
        raise BodyMalformed("body: not a .npy file") from None
    return shape, is_fortran, dtype, file.tell()


_remembered = lru_cache(maxsize=256)(_parse)


def _as_array(output: Any) -> Array:
    if not isinstance(output, list | tuple | int | float):
        array = as_array(output)
        if array is None:
            raise TypeError(f"a {type(output).__name__} is not an array")
    else:
        array = _of_numbers(output)
    if not is_array(array):
        raise TypeError(f"an array of {array.dtype} is not an array of numbers")
    return array


def _of_numbers(output: Any) -> Array:
    try:
        return np.asarray(output)
    except ValueError as error:
        raise ResultNotEncodable(f"output: {error}") from error


codec = NpyCodec()

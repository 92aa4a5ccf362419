# SPDX-License-Identifier: Apache-2.0
"""Weights mapped from their files: workers that map the same file share its pages.

Runs in: worker. numpy is imported with the first array.
"""

import json
import math
import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servekit.errors import BootError
from servekit.types.arrays import extended_dtype

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["map_npy", "map_safetensors"]

#: numpy's names of the element types of safetensors
DTYPES = {
    "BOOL": "?",
    "I8": "i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "C64": "<c8",
}
#: element types that ml_dtypes adds to numpy
OF_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
LENGTH_BYTES = 8  #: size of the header's length, little-endian, at the start of a safetensors file


def map_npy(directory: Path, file: str) -> "Array":
    """Return the array in the ``.npy`` *file* of *directory*, mapped and read-only.

    :raises BootError: there is no such file in *directory*, or it holds no array of numbers.
    """
    import numpy as np

    path = _inside(directory, file)
    try:
        return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except Exception as error:  # noqa: BLE001 - its header is a Python literal
        raise BootError(f"{file}: cannot be mapped as .npy ({_reason(error)})") from None


def map_safetensors(directory: Path, file: str) -> dict[str, "Array"]:
    """Return the arrays in the safetensors *file* by name, mapped and read-only.

    bfloat16 and float8 are dtypes of ml_dtypes.

    :raises BootError: there is no such file in *directory*, it is not of the format, or an
        array has an element type that neither numpy nor ml_dtypes has; or the latter is missing.
    """
    path = _inside(directory, file)
    try:
        with path.open("rb") as source:
            content = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        start = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
        entries = json.loads(content[LENGTH_BYTES:start])
        entries.pop("__metadata__", None)
        return {name: _array(content, start, **entry) for name, entry in entries.items()}
    except Exception as error:  # noqa: BLE001 - its header is JSON of any kind
        raise BootError(f"{file}: cannot be mapped as safetensors ({_reason(error)})") from None


def _array(
    content: mmap.mmap, start: int, *, dtype: str, shape: list[int], data_offsets: list[int]
) -> "Array":
    import numpy as np

    kind, (first, end) = _dtype(dtype), data_offsets
    if not 0 <= first <= end <= len(content) - start or min(shape, default=0) < 0:
        raise ValueError(f"{shape} at {data_offsets} is not in the file")
    if end - first != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{end - first} bytes are not {dtype} {shape}")
    flat = np.frombuffer(content, np.uint8, end - first, start + first)
    return flat.view(kind).reshape(shape)


def _dtype(name: str) -> "np.dtype[Any]":
    """Return the dtype of elements of *name*.

    :raises ValueError: there is none.
    :raises ImportError: it needs ml_dtypes, which is not installed.
    """
    import numpy as np

    if name in OF_ML_DTYPES:
        return extended_dtype(OF_ML_DTYPES[name])
    if name not in DTYPES:
        raise ValueError(f"numpy has no {name}")
    return np.dtype(DTYPES[name])


def _reason(error: Exception) -> str:
    """Return the first line of what *error* says, or its kind."""
    return str(error).split("\n")[0][:200] or type(error).__name__


def _inside(directory: Path, file: str) -> Path:
    """Return the path of *file*, which must lie in *directory*."""
    path = directory / file
    if not path.resolve().is_relative_to(directory.resolve()):
        raise BootError(f"{file}: is not in the model directory")
    if not path.is_file():
        raise BootError(f"{file}: there is no such file in the model directory")
    return path

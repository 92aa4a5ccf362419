# SPDX-License-Identifier: Apache-2.0
"""Says why a value is not the declared array; slow, and called only when it is not."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np

from servekit.counting import counted

__all__ = ["explain", "shown"]

SHOWN = 40
BLOCK = 1024  #: elements of a list that are looked at in one go, in C
LARGEST = 2**63 - 1  #: bound that msgspec knows
MAX_FLOAT = {"float16": 65504.0, "float32": float(np.finfo(np.float32).max)}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def explain(value: Any, shape: Sequence[int], dtype: str) -> tuple[str, str]:
    """Return where *value* is wrong, as a path such as ``[0][3]``, and how.

    :param shape: declared, with -1 for any size.
    """
    if isinstance(value, np.ndarray | np.generic):
        return _explain_array(np.asarray(value), shape, dtype)
    found = _shape_of(value)
    if shape and not found and not isinstance(value, list):
        return "", f"{shown(value)} is not an array of shape {list(shape)}"
    if not _fits(found, shape):
        return "", f"shape {list(found)}, expected {list(shape)}"
    return next(_wrong(value, found, dtype), ("", f"not {dtype} of shape {list(shape)}"))


def _explain_array(array: Any, shape: Sequence[int], dtype: str) -> tuple[str, str]:
    if not _fits(array.shape, shape):
        return "", f"shape {list(array.shape)}, expected {list(shape)}"
    if _same_kind(array.dtype.kind, np.dtype(dtype).kind):
        outside = _outside(array, dtype)
        if outside.any():
            place = np.unravel_index(outside.argmax(), array.shape)
            path = "".join(f"[{index}]" for index in place)
            return path, f"{shown(array[place].item())} is not {dtype}"
    return "", f"dtype {array.dtype.name}, expected {dtype}"


def _outside(array: Any, dtype: str) -> Any:
    """Return which elements of *array* are too large for *dtype*, which is of the same kind."""
    if dtype in INTEGERS:
        own, info = np.iinfo(array.dtype), np.iinfo(dtype)
        low, high = max(own.min, info.min), min(own.max, info.max)
        return (array < array.dtype.type(low)) | (array > array.dtype.type(high))
    if dtype in MAX_FLOAT:
        return np.isfinite(array) & (np.abs(array) > MAX_FLOAT[dtype])
    return np.zeros(1, bool)


def _same_kind(found: str, expected: str) -> bool:
    return found == expected or {found, expected} == {"i", "u"}


def _shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape that the first elements suggest."""
    sizes = []
    while isinstance(value, list | tuple):
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(sizes)


def _fits(found: Sequence[int], shape: Sequence[int]) -> bool:
    return len(found) == len(shape) and all(
        size == expected or expected == -1 for size, expected in zip(found, shape, strict=True)
    )


def _wrong(
    value: Any, shape: Sequence[int], dtype: str, path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the path and the fault of every element and of every list of another length."""
    if not shape:
        if not _is_element(value, dtype):
            yield path, f"{shown(value)} is not {dtype}"
    elif not isinstance(value, list | tuple):
        yield path, f"{shown(value)} is not an array"
    elif len(value) != shape[0]:
        yield path, f"{counted(len(value), 'element')}, expected {shape[0]}"
    else:
        inner = _list_type(tuple(shape[1:]), dtype)
        for start in range(0, len(value), BLOCK):
            block = value[start : start + BLOCK]
            if not _is_of(block, inner):
                for i, element in enumerate(block, start):
                    yield from _wrong(element, shape[1:], dtype, f"{path}[{i}]")


@lru_cache(maxsize=64)
def _list_type(shape: tuple[int, ...], dtype: str) -> Any:
    """Return the type of a list whose elements all are right; some that are may not be of it."""
    type_: Any = {"bool": bool, "str": str}.get(dtype, float)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        type_ = Annotated[int, msgspec.Meta(ge=int(max(info.min, -LARGEST)))]
        type_ = Annotated[type_, msgspec.Meta(le=int(min(info.max, LARGEST)))]
    elif dtype in MAX_FLOAT:
        limit = MAX_FLOAT[dtype]
        type_ = Annotated[float, msgspec.Meta(ge=-limit, le=limit)]
    for size in reversed(shape):
        type_ = Annotated[list[type_], msgspec.Meta(min_length=size, max_length=size)]
    return list[type_]


def _is_of(values: Any, type_: Any) -> bool:
    try:
        msgspec.convert(values, type_)
    except ValueError:  # all errors of msgspec are
        return False
    return True


def _is_element(value: Any, dtype: str) -> bool:
    if dtype == "str":
        return isinstance(value, str)
    if dtype == "bool" or isinstance(value, bool):
        return dtype == "bool" and isinstance(value, bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return is_whole and bool(info.min <= value <= info.max)
    if not isinstance(value, int | float):
        return False
    return abs(value) <= MAX_FLOAT.get(dtype, 1.8e308) or value != value or abs(value) == np.inf


def shown(value: Any) -> str:
    """Return *value* as an error repeats it: short, in the words of JSON."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."

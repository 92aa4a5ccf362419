# SPDX-License-Identifier: Apache-2.0
"""Says why a value is not the declared array; slow, and called only when it is not."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from servekit.counting import counted

__all__ = ["explain", "shown"]

SHOWN = 40
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
    wrong = next(_wrong(array.tolist(), array.shape, dtype), None)
    if wrong is None or not _same_kind(array.dtype.kind, np.dtype(dtype).kind):
        return "", f"dtype {array.dtype.name}, expected {dtype}"
    return wrong


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
        for i, element in enumerate(value):
            yield from _wrong(element, shape[1:], dtype, f"{path}[{i}]")


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

# SPDX-License-Identifier: Apache-2.0
"""Checks lists that should become an array: the types for msgspec, and what is wrong with a value.

``explain`` is slow. Only inputs that are refused need it.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from servekit.counting import counted
from servekit.types.arrays import EXTENDED, extended_dtype
from servekit.worker.codecs.arrays import USER_DEFINED

__all__ = ["FINITE", "element_dtype", "exact_lists", "explain", "fits", "kind_of", "lists"]

QUOTED_CHARS: Final = 40  #: characters of a value, in an error
BLOCK: Final = 1024  #: elements of a list that msgspec checks at once
KINDS: Final[dict[str, Any]] = {"b": bool, "f": float, "O": str}
MAX_BOUND: Final = 2**63 - 1  #: the largest bound of integers that msgspec takes
#: a number has to stay below this, so that it does not round to infinity
FINITE: Final = {
    "float16": 65520.0,
    "bfloat16": 2.0**128 - 2.0**119 - 2.0**103,  # it is rounded to a float32 before
    "float32": 2.0**128 - 2.0**103,
}


def element_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of numpy for a dtype of a signature.

    :raises ImportError: it is bfloat16, and ml_dtypes is not installed.
    """
    if name in EXTENDED:
        return extended_dtype(name)
    return np.dtype(object if name == "str" else name)


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return NumPy's letter for the kind of *dtype*: ``f`` also for the floats of ml_dtypes."""
    return "f" if dtype.isbuiltin == USER_DEFINED and dtype.name in EXTENDED else dtype.kind


def fits(found: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the shape *found* is *shape*, in which -1 stands for any size."""
    return len(found) == len(shape) and all(
        size == expected or expected == -1 for size, expected in zip(found, shape, strict=True)
    )


# ------------------------------------------------------------ types for msgspec


def lists(dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    """Return ``list[list[float]]`` or the like, for elements of *dtype*.

    A value of this type is an array of *dtype*, unless numpy finds floats that are too large,
    integers of more than 64 bits, or another shape.
    """
    nested: Any = KINDS.get(kind_of(dtype))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        most = int(info.max) if info.max <= MAX_BOUND else None
        nested = Annotated[int, msgspec.Meta(ge=int(info.min), le=most)]
    for _ in shape:
        nested = list[nested]
    return nested


@lru_cache(maxsize=64)
def exact_lists(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return a type whose values numpy makes an array of *dtype* and *shape* of, without a check.

    Some arrays are not of the type: those that hold infinity, NaN or integers over 63 bits.
    """
    nested: Any = lists(dtype, ())
    if dtype == np.uint64:
        nested = Annotated[int, msgspec.Meta(ge=0, le=MAX_BOUND)]
    elif dtype.name in FINITE:
        limit = FINITE[dtype.name]
        nested = Annotated[float, msgspec.Meta(gt=-limit, lt=limit)]
    for size in reversed(shape):
        nested = Annotated[list[nested], msgspec.Meta(min_length=size, max_length=size)]
    return nested


# ------------------------------------------------------------ what is wrong


def explain(value: Any, shape: Sequence[int], dtype: str) -> tuple[str, str]:
    """Return where *value* is wrong, as a path such as ``[0][3]``, and the reason.

    :param shape: as declared, with -1 for any size.
    """
    if isinstance(value, np.ndarray | np.generic):
        return _explain_array(np.asarray(value), shape, dtype)
    found = _shape_of(value)
    if shape and not found and not isinstance(value, list):
        return "", f"{_shown(value)} is not an array of shape {list(shape)}"
    if not fits(found, shape):
        return "", f"shape {list(found)}, expected {list(shape)}"
    return next(_wrong(value, found, dtype), ("", f"not {dtype} of shape {list(shape)}"))


def _explain_array(array: Any, shape: Sequence[int], dtype: str) -> tuple[str, str]:
    if not fits(array.shape, shape):
        return "", f"shape {list(array.shape)}, expected {list(shape)}"
    kinds = {kind_of(array.dtype), kind_of(element_dtype(dtype))}
    if len(kinds) == 1 or kinds == {"i", "u"}:
        outside = _outside(array, element_dtype(dtype))
        if outside.any():
            place = np.unravel_index(outside.argmax(), array.shape)
            path = "".join(f"[{index}]" for index in place)
            return path, f"{_shown(array[place].item())} is not {dtype}"
    return "", f"dtype {array.dtype.name}, expected {dtype}"


def _outside(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return which elements of *array* are too large for *dtype*, which is of the same kind."""
    if dtype.kind in "iu":
        own, info = np.iinfo(array.dtype), np.iinfo(dtype)
        low, high = max(own.min, info.min), min(own.max, info.max)
        return (array < array.dtype.type(low)) | (array > array.dtype.type(high))
    if dtype.name in FINITE and array.dtype.itemsize > dtype.itemsize:
        return np.isfinite(array) & (np.abs(array) >= FINITE[dtype.name])
    return np.zeros(1, bool)


def _shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape that the first elements suggest."""
    sizes = []
    while isinstance(value, list | tuple):
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(sizes)


def _wrong(
    value: Any, shape: tuple[int, ...], dtype: str, path: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield path and reason of every wrong element, and of every list of another length."""
    if not shape:
        if not _is_element(value, dtype):
            yield path, f"{_shown(value)} is not {dtype}"
    elif not isinstance(value, list | tuple):
        yield path, f"{_shown(value)} is not an array"
    elif len(value) != shape[0]:
        yield path, f"{counted(len(value), 'element')}, expected {shape[0]}"
    else:
        inner = exact_lists(element_dtype(dtype), shape[1:])
        for start in range(0, len(value), BLOCK):
            block = value[start : start + BLOCK]
            if not _are_all(block, inner):
                for i, element in enumerate(block, start):
                    yield from _wrong(element, shape[1:], dtype, f"{path}[{i}]")


def _are_all(values: Sequence[Any], type_: Any) -> bool:
    try:
        msgspec.convert(values, list[type_])
    except ValueError:  # every error of msgspec is one
        return False
    return True


def _is_element(value: Any, dtype: str) -> bool:
    if dtype == "str":
        return isinstance(value, str)
    if dtype == "bool" or isinstance(value, bool):
        return dtype == "bool" and isinstance(value, bool)
    if not isinstance(value, int | float):
        return False
    if "float" not in dtype:
        info = np.iinfo(dtype)
        is_whole = isinstance(value, int) or value.is_integer()
        return is_whole and bool(info.min <= value <= info.max)
    size = abs(value)
    return not size >= FINITE.get(dtype, np.inf) or size == np.inf


def _shown(value: Any) -> str:
    """Return *value* as an error repeats it: short, in the words of JSON."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "..."

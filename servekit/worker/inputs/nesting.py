# SPDX-License-Identifier: Apache-2.0
"""The types by which msgspec checks the lists that an array is made of."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np

__all__ = ["exact_lists", "lists"]

KINDS: Final[dict[str, Any]] = {"b": bool, "f": float, "O": str}
MSGSPEC_INT: Final = 2**63  #: its bounds of integers lie below
#: what a number has to stay below so that it does not round to infinity
FINITE: Final = {"float16": 65520.0, "float32": 2.0**128 - 2.0**103}


def lists(dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    """Return ``list[list[float]]`` or alike, for elements of *dtype*.

    What passes is an array of *dtype*, except that numpy finds floats that are too large,
    integers over 64 bits, and another shape.
    """
    nested: Any = _element(dtype)
    for _ in shape:
        nested = list[nested]
    return nested


def exact_lists(dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    """Return the type of JSON texts that are an array of *dtype* with the axes of *shape*.

    numpy makes the array of whatever passes. ``None``: msgspec cannot check so much.
    """
    if dtype == np.uint64 or any(size < 1 for size in shape):  # open, or without elements
        return None
    nested: Any = _element(dtype)
    if dtype.name in FINITE:  # JSON has neither infinity nor NaN
        limit = FINITE[dtype.name]
        nested = Annotated[float, msgspec.Meta(gt=-limit, lt=limit)]
    for size in reversed(shape):
        nested = Annotated[list[nested], msgspec.Meta(min_length=size, max_length=size)]
    return nested


def _element(dtype: np.dtype[Any]) -> Any:
    if dtype.kind not in "iu":
        return KINDS[dtype.kind]
    info = np.iinfo(dtype)
    high = int(info.max) if info.max < MSGSPEC_INT else None
    return Annotated[int, msgspec.Meta(ge=int(info.min), le=high)]

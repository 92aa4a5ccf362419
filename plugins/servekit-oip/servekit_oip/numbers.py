# SPDX-License-Identifier: Apache-2.0
"""Large lists of numbers in JSON, straight into memory, where simdjson is installed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    import msgspec

    from servekit_oip.datatypes import Datatype

__all__ = ["read_numbers"]

SMALLEST: Final = 4096  #: bytes of JSON; below, simdjson does not pay off
#: how simdjson reads a kind of elements: its name, and the resulting dtype
READ_AS: Final = {"f": ("d", np.float64), "i": ("i", np.int64), "u": ("u", np.uint64)}
#: raised by simdjson and numpy if there are not only numbers in lists
UNFIT: Final = (ValueError, TypeError, AttributeError, OverflowError, RuntimeError)


@cache
def _simdjson() -> ModuleType | None:
    """Return simdjson, imported with the first large tensor; ``None`` if it is not installed."""
    try:
        import simdjson
    except ImportError:
        return None
    module: ModuleType = simdjson
    return module


def read_numbers(datatype: Datatype, text: msgspec.Raw) -> np.ndarray[Any, Any] | None:
    """Return the numbers of *text*, lists however nested, as one row; ``None``: go the slow way."""
    if memoryview(text).nbytes < SMALLEST or (simdjson := _simdjson()) is None:
        return None
    dtype = np.dtype(datatype.dtype) if datatype.size else np.dtype(object)
    if dtype.kind not in READ_AS:
        return None
    kind, read_dtype = READ_AS[dtype.kind]
    try:
        document = simdjson.Parser().parse(bytes(text))
        numbers = np.frombuffer(document.as_buffer(of_type=kind), read_dtype)
        return _narrowed(numbers, dtype)
    except UNFIT:
        return None


def _narrowed(numbers: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return *numbers* as *dtype*.

    :raises OverflowError: one is out of its range.
    """
    if dtype.kind == "f":
        with np.errstate(over="raise"):
            try:
                return numbers.astype(dtype, copy=False)
            except FloatingPointError as error:
                raise OverflowError(str(error)) from None
    info = np.iinfo(dtype)
    if numbers.size and not (info.min <= int(numbers.min()) and int(numbers.max()) <= info.max):
        raise OverflowError("out of range")
    return numbers.astype(dtype, copy=False)

# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries (torch, jax, cupy, ``array.array``) as arrays of NumPy.

The class decides: it has ``__array__`` or ``__dlpack__``, or its values are buffers. The array
shares their memory where the library allows it.
"""

import sys
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final

import msgspec
import numpy as np

from servekit.errors import ResultNotEncodable
from servekit.types.arrays import EXTENDED, extended_dtype
from servekit.worker.codecs.arrays import Array

__all__ = ["as_array", "known_arrays"]

MOST_KNOWN: Final = 1024  #: classes that are remembered
REASON_CHARS: Final = 300  #: characters of the reason that a library gives
#: arrays of NumPy, and what has another meaning as an output whatever protocols it supports
NOT_OTHERS: Final = (
    *(bytes, bytearray, memoryview, str, int, float, list, tuple, dict, type(None)),
    *(np.ndarray, np.generic, msgspec.Raw),
)

#: classes of values that hold no array of another library
KNOWN: Final = frozenset({type(None), bool, int, float, str, bytes, np.ndarray})

#: makes an array of a value; raises anything
Make = Callable[[Any], Array]


def as_array(value: Any) -> Array | None:
    """Return *value* as an array of NumPy; ``None`` if it is not an array of another library.

    :raises ResultNotEncodable: it is an array that NumPy cannot hold.
    """
    kind = type(value)
    try:
        ways = _known[kind]
    except KeyError:
        ways = _remembered(kind, value)
    if not ways:
        return None
    reasons = []
    for make in ways:
        try:
            array = make(value)
        except Exception as error:  # noqa: BLE001 - another library may raise anything
            reasons.append(error)
        else:
            return array if isinstance(array, np.ndarray) else None
    raise ResultNotEncodable(f"output: {_name(kind)} is not an array of NumPy: {_said(reasons[0])}")


def known_arrays(value: Any) -> Any:
    """Return *value*, or a copy of its lists and mappings with arrays of NumPy for other arrays.

    :raises ResultNotEncodable: NumPy cannot hold one.
    """
    kind = type(value)
    if kind in KNOWN:
        return value
    if kind is dict:
        if KNOWN.issuperset(map(type, value.values())):
            return value
        found = {key: known_arrays(each) for key, each in value.items()}
        return value if all(map(is_, found.values(), value.values())) else found
    if kind is list:
        if KNOWN.issuperset(map(type, value)):
            return value
        each_known = [*map(known_arrays, value)]
        return value if all(map(is_, each_known, value)) else each_known
    array = as_array(value)
    return value if array is None else array


_known: dict[type, Sequence[Make]] = {}


def _remembered(kind: type, value: Any) -> Sequence[Make]:
    """Return the ways to make arrays of values of *kind*, the best one first; empty: not arrays."""
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[kind] = ways = _ways(kind, value)
    return ways


def _ways(kind: type, value: Any) -> Sequence[Make]:
    if issubclass(kind, NOT_OTHERS):
        return ()
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return (_of_torch,)
    offered: list[tuple[str, Make]] = [("__array__", np.asarray), ("__dlpack__", _of_dlpack)]
    ways = [make for name, make in offered if hasattr(kind, name)]
    return ways or ([_of_buffer] if _is_buffer(value) else [])


def _of_torch(tensor: Any) -> Array:
    """Return a tensor without its gradient; a copy if it is on another device."""
    try:
        return tensor.numpy(force=True)  # type: ignore[no-any-return]
    except TypeError:  # NumPy has no such element type
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in EXTENDED:
            raise
    torch = sys.modules["torch"]
    dtype = extended_dtype(name)
    bits = torch.int16 if dtype.itemsize == 2 else torch.uint8
    return tensor.detach().view(bits).numpy(force=True).view(dtype)  # type: ignore[no-any-return]


def _of_dlpack(value: Any) -> Array:
    """Return an array of memory of the CPU; since NumPy 2.1, also a copy from a device."""
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, ValueError):
        return np.from_dlpack(value, device="cpu")


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, BufferError):
        return False
    return True


def _of_buffer(value: Any) -> Array:
    return np.asarray(memoryview(value))


def _name(kind: type) -> str:
    module = kind.__module__.partition(".")[0]
    return f"a {module}.{kind.__name__}" if module != "builtins" else f"a {kind.__name__}"


def _said(error: Exception) -> str:
    return (str(error).split("\n")[0] or type(error).__name__)[:REASON_CHARS]

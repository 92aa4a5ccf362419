# SPDX-License-Identifier: Apache-2.0
"""The fast way of large arrays in JSON: simdjson reads their numbers straight into memory.

It makes one row of all numbers of a list, however they nest, so the shape is read from the
brackets and commas of the text. What is not exactly as declared goes the long way, which says
why; so does everything where simdjson is not installed.
"""

import math
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from servekit.worker.inputs.tensors import Array, TensorReader, TensorRefused

__all__ = ["LargeArrays", "is_large"]

SMALLEST: Final = 4096  #: bytes of a text, below which the long way is short enough
STRUCTURE: Final = b"[],"
NOT_STRUCTURE: Final = bytes(set(range(256)) - set(STRUCTURE))
#: how simdjson reads a kind of elements: its name, and the dtype that it makes
READ_AS: Final = {"f": ("d", np.float64), "i": ("i", np.int64), "u": ("u", np.uint64)}
#: what simdjson, numpy and the tensor raise of a text that is not just numbers in lists
UNFIT: Final = (
    *(ValueError, TypeError, AttributeError, KeyError, OverflowError, RuntimeError),
    TensorRefused,
)


@cache
def _simdjson() -> ModuleType | None:
    """Return simdjson, imported when the first large text comes."""
    try:
        import simdjson
    except ImportError:
        return None
    module: ModuleType = simdjson
    return module


def is_large(text: bytes) -> bool:
    """Whether simdjson, if it is there, is worth the while."""
    return len(text) >= SMALLEST and _simdjson() is not None


class LargeArrays:
    """Reads texts of the arrays that are declared, all numbers."""

    def __init__(self, tensors: Sequence[TensorReader], *, may_be_object: bool) -> None:
        """Read an object of *tensors*, or the only one of them alone.

        :param may_be_object: otherwise it is always alone.
        """
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._firsts = [b"{"] * may_be_object + [b"["] * (len(tensors) == 1)
        self._is_able = all(map(_is_readable, tensors)) and not any(
            set(name) & set("[],{}") for name in self._tensors if may_be_object
        )
        self._is_flat = all(len(tensor.shape) < 2 for tensor in tensors)

    def read(self, body: bytes) -> tuple[Array, ...] | None:
        """Return the arrays of *body*, in the order of the tensors; ``None``: try the long way."""
        if not (self._is_able and body[:1] in self._firsts and is_large(body)):
            return None
        try:
            return self._read(_parse(body), body)
        except UNFIT:
            return None

    def _read(self, document: Any, body: bytes) -> tuple[Array, ...]:
        if body[:1] == b"{":
            if sorted(names := list(document)) != sorted(self._tensors):
                raise ValueError("other names, or one of them twice")
            arrays = {name: _array(self._tensors[name], document[name]) for name in names}
        else:
            arrays = {name: _array(tensor, document) for name, tensor in self._tensors.items()}
        self._check_structure(body, [array.shape for array in arrays.values()])
        return tuple(arrays[name] for name in self._tensors)

    def _check_structure(self, body: bytes, shapes: Sequence[tuple[int, ...]]) -> None:
        """Compare the lists of *body* with arrays of *shapes*, one after another.

        As every place of an array has one number at most, and the numbers are as many as the
        places, brackets and commas tell its shape.
        """
        if self._is_flat:
            is_so = body.count(b"[") == sum(map(len, shapes))
        else:
            is_so = body.translate(None, NOT_STRUCTURE) == b",".join(map(_structure, shapes))
        if not is_so:
            raise ValueError("another shape")


def _parse(body: bytes) -> Any:
    simdjson = _simdjson()
    assert simdjson is not None
    return simdjson.Parser().parse(body)  # one that is kept would keep its memory


def _is_readable(tensor: TensorReader) -> bool:
    return tensor.dtype.kind in READ_AS and tensor.shape.count(-1) < 2


def _array(tensor: TensorReader, value: Any) -> Array:
    """Return the array of a list of simdjson's, whose structure is still to be checked."""
    if not tensor.shape:
        if type(value) is not int and (type(value) is not float or tensor.dtype.kind != "f"):
            raise TypeError("not a number of this kind")
        return tensor.from_value(value)
    kind, dtype = READ_AS[tensor.dtype.kind]
    numbers = np.frombuffer(value.as_buffer(of_type=kind), dtype)
    return tensor.cast(numbers).reshape(_shape(tensor.shape, numbers.size))


def _shape(declared: Sequence[int], size: int) -> tuple[int, ...]:
    """Return *declared* with the size of its open axis, if it has *size* elements.

    :raises ValueError: there are no elements, so the text may be of any shape.
    """
    others = math.prod(axis for axis in declared if axis != -1)
    shape = tuple(size // max(others, 1) if axis == -1 else axis for axis in declared)
    if not size or math.prod(shape) != size:
        raise ValueError("another number of elements")
    return shape


def _structure(shape: Sequence[int]) -> bytes:
    """Return the brackets and commas of an array of *shape* as a text."""
    text = b""
    for size in reversed(shape):
        text = b"[%b]" % b",".join([text] * size)
    return text

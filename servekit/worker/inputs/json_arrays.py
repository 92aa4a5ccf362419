# SPDX-License-Identifier: Apache-2.0
"""Fast ways to read arrays in JSON. A body that they do not take is read the slow way.

Small arrays: numpy takes longer to make an array of four numbers than msgspec to read them. So
they stay lists, fully checked by msgspec, and the whole batch becomes one array.

Large arrays: simdjson reads their numbers straight into memory, as one row however the lists
nest. The shape is then read from the brackets and commas of the text.

Only the slow way explains what is wrong with an input. It also reads large arrays where simdjson
is not installed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import msgspec
import numpy as np

from servekit.worker.inputs.array_checks import kind_of
from servekit.worker.inputs.tensors import Array, TensorReader, TensorRefused

__all__ = ["SMALLEST", "LargeArrays", "ReadLists", "is_large", "list_readers", "small_readers"]

MOST_ELEMENTS: Final = 1024  #: a small array has no more; for larger ones, lists are slower
SMALLEST: Final = 4096  #: bytes of a large body; below, simdjson does not pay off
OPENING: Final = ord("[")
NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b"[],"))
#: how simdjson reads a kind of elements: its name, and the resulting dtype
READ_AS: Final = {"f": ("d", np.float64), "i": ("i", np.int64), "u": ("u", np.uint64)}
#: raised by simdjson, numpy and the tensor if there are not only numbers in lists
UNFIT: Final = (
    *(ValueError, TypeError, AttributeError, KeyError, OverflowError, RuntimeError),
    TensorRefused,
)

#: a JSON body to the lists of each input
ReadLists = Callable[[bytes], tuple[Any, ...]]


def small_readers(tensors: Sequence[TensorReader]) -> dict[bytes, ReadLists]:
    """Return readers of JSON bodies by their first character; none if the arrays are not small.

    They raise ``ValueError`` if a body is not exactly as declared.
    """
    types = {tensor.name: tensor.exact for tensor in tensors}
    if None in types.values() or any(tensor.size > MOST_ELEMENTS for tensor in tensors):
        return {}
    return list_readers(types, may_be_alone=len(tensors) == 1 and bool(tensors[0].shape))


def list_readers(types: Mapping[str, Any], *, may_be_alone: bool) -> dict[bytes, ReadLists]:
    """Return readers of lists of *types*, as ``exact_lists`` returns them, by name.

    :param may_be_alone: the lists of the one type may come without their name.
    """
    fields = [
        (f"input_{place}", exact, msgspec.field(name=name))
        for place, (name, exact) in enumerate(types.items())
    ]
    inputs = msgspec.defstruct("Inputs", fields, forbid_unknown_fields=True, gc=False)
    decode, values = msgspec.json.Decoder(inputs).decode, msgspec.structs.astuple
    readers: dict[bytes, ReadLists] = {b"{": lambda body: values(decode(body))}
    if may_be_alone:
        decode_alone = msgspec.json.Decoder(*types.values()).decode
        readers[b"["] = lambda body: (decode_alone(body),)
    return readers


@cache
def _simdjson() -> ModuleType | None:
    """Return simdjson, imported with the first large body; ``None`` if it is not installed."""
    try:
        import simdjson
    except ImportError:
        return None
    module: ModuleType = simdjson
    return module


def is_large(text: bytes) -> bool:
    """Whether simdjson pays off for *text*, and is installed."""
    return len(text) >= SMALLEST and _simdjson() is not None


class LargeArrays:
    """Reads bodies that hold all the declared arrays, if these consist of numbers."""

    def __init__(self, tensors: Sequence[TensorReader], *, may_be_object: bool) -> None:
        """Read an object of *tensors*; a single one may also stand alone.

        :param may_be_object: otherwise the one tensor always stands alone.
        """
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._firsts = [b"{"] * may_be_object + [b"["] * (len(tensors) == 1)
        are_read = (kind_of(each.dtype) in READ_AS and each.shape.count(-1) < 2 for each in tensors)
        is_clear = not any(set(name) & set("[],{}") for name in self._tensors if may_be_object)
        self._is_able = all(are_read) and is_clear
        self._is_flat = all(len(tensor.shape) < 2 for tensor in tensors)

    def read(self, body: bytes) -> tuple[Array, ...] | None:
        """Return the arrays of *body* in the order of the tensors; ``None``: go the slow way."""
        if not (self._is_able and body[:1] in self._firsts and is_large(body)):
            return None
        simdjson = _simdjson()
        assert simdjson is not None
        try:
            document = simdjson.Parser().parse(body)  # a parser that is kept would keep its memory
            return self._read(document, body)
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

        Each element of an array is one number at most, and there are as many numbers as elements,
        so brackets and commas determine the shape.
        """
        if self._is_flat:
            brackets = np.count_nonzero(np.frombuffer(body, np.uint8) == OPENING)
            is_same = brackets == sum(map(len, shapes))
        else:
            is_same = body.translate(None, NOT_STRUCTURE) == b",".join(map(_structure, shapes))
        if not is_same:
            raise ValueError("another shape")


def _array(tensor: TensorReader, value: Any) -> Array:
    """Return the array of a list of simdjson's. Its structure is checked later."""
    if not tensor.shape:
        if type(value) is not int and (type(value) is not float or kind_of(tensor.dtype) != "f"):
            raise TypeError("not a number of this kind")
        return tensor.from_value(value)
    kind, dtype = READ_AS[kind_of(tensor.dtype)]
    numbers = np.frombuffer(value.as_buffer(of_type=kind), dtype)
    return tensor.cast(numbers).reshape(_shape(tensor.shape, numbers.size))


def _shape(declared: Sequence[int], size: int) -> tuple[int, ...]:
    """Return *declared* with the size of its open axis, for an array of *size* elements.

    :raises ValueError: it cannot have so many, or has none, so the body may have any shape.
    """
    others = math.prod(axis for axis in declared if axis != -1)
    shape = tuple(size // max(others, 1) if axis == -1 else axis for axis in declared)
    if not size or math.prod(shape) != size:
        raise ValueError("another number of elements")
    return shape


def _structure(shape: Sequence[int]) -> bytes:
    """Return the brackets and commas of the JSON of an array of *shape*."""
    text = b""
    for size in reversed(shape):
        text = b"[%b]" % b",".join([text] * size)
    return text

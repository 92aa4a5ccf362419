# SPDX-License-Identifier: Apache-2.0
"""Arrays that an annotation declares: ``Annotated[np.ndarray, Array("float32", (-1, 3))]``."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from servekit.worker.codecs.arrays import USER_DEFINED
from servekit.worker.inputs.json_arrays import LargeArrays
from servekit.worker.inputs.leaves import Leaf, NotOfType
from servekit.worker.inputs.tensors import Array, TensorReader, TensorRefused

__all__ = ["ArrayLeaf", "array_leaf"]

ONE_ARRAY = ("application/x-npy", "application/octet-stream")
ONE_TEXT = ("text/plain",)
_leaves: dict[tuple[Any, ...], "ArrayLeaf"] = {}


def array_leaf(declared: Mapping[str, Any], kind: Any = np.ndarray) -> "ArrayLeaf":
    """Return the leaf of a declaration; equal declarations share one.

    :param kind: the annotated class, ``torch.Tensor``; any other gets arrays of NumPy.
    """
    key = (kind, declared["dtype"], *declared["shape"])
    if key not in _leaves:
        is_tensor = kind.__module__ == "torch" and kind.__name__ == "Tensor"
        _leaves[key] = (TensorLeaf if is_tensor else ArrayLeaf)(TensorReader(declared))
    return _leaves[key]


class ArrayLeaf(Leaf):
    """Makes arrays by the rules that hold for the inputs of a signature."""

    def __init__(self, tensor: TensorReader) -> None:
        self._tensor = tensor
        self._large = LargeArrays([tensor], may_be_object=False)
        self.declared = {"dtype": tensor.dtype_name, "shape": tensor.shape}

    def takes(self, media_type: str) -> bool:
        """Whether *media_type* holds one array of this kind."""
        return media_type in (ONE_TEXT if self._tensor.is_text else ONE_ARRAY)

    def make(self, value: Any) -> Array:
        """Return the array made of an array, of lists, of a number or of raw bytes."""
        return _made(self._tensor.from_value, value)

    def from_json(self, body: bytes) -> Array:
        """Return the array of a JSON text."""
        array = self.read_large(body)
        return _made(self._tensor.from_json, body) if array is None else array

    def read_large(self, text: bytes) -> Array | None:
        """Return the array of a long JSON text; ``None`` if it is short, or not this array."""
        arrays = self._large.read(text)
        return arrays[0] if arrays else None


class TensorLeaf(ArrayLeaf):
    """Makes tensors of torch, which the service has imported, by the same rules."""

    def make(self, value: Any) -> Any:
        """Return a tensor with its own memory, which the service may change."""
        return _as_tensor(super().make(value))

    def from_json(self, body: bytes) -> Any:
        """Return the tensor of a JSON text."""
        return _as_tensor(super().from_json(body))


def _as_tensor(array: Array) -> Any:
    torch = sys.modules["torch"]
    if array.dtype.isbuiltin != USER_DEFINED:
        return torch.tensor(array)
    return torch.tensor(array.view(np.int16)).view(torch.bfloat16)


def _made(make: Callable[[Any], Array], value: Any) -> Array:
    try:
        return make(value)
    except TensorRefused as error:
        raise NotOfType((error.path, error.message)) from None

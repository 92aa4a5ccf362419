# SPDX-License-Identifier: Apache-2.0
"""A model as its file describes it, whatever the format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from servekit.errors import BootError

__all__ = ["DTYPES", "Arrange", "Declared", "TorchModel", "arrange_by_name", "describe"]

Declared = dict[str, Any]  #: ``{"name", "dtype", "shape"}`` as in ``model.toml``
#: tensors by the names of the inputs to the arguments of a call, positional and by keyword
Arrange = Callable[[Mapping[str, Any]], tuple[Sequence[Any], Mapping[str, Any]]]

#: the dtypes that clients send and get; NumPy has no bfloat16
DTYPES = {
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "float32",
    torch.float32: "float32",
    torch.float64: "float64",
}


@dataclass(frozen=True, kw_only=True)
class TorchModel:
    """A module on the CPU, and what is known of its inputs and outputs."""

    module: Any
    arrange: Callable[[Sequence[str]], Arrange]  #: given the names of the inputs
    inputs: list[Declared] | None = None  #: without the batch axis; ``None`` if unknown
    outputs: list[Declared] | None = None
    casts: Mapping[str, Any] | None = None  #: dtypes that inputs are cast to; ``None``: unknown
    smallest: int = 1  #: rows that one run takes
    largest: int | None = None  #: ``None``: any number
    is_script: bool = False


def describe(name: str, tensor: Any, *, batched: bool) -> Declared:
    """Describe *tensor*, whose symbolic sizes become -1.

    :raises BootError: it has no batch axis, or a dtype that clients cannot send.
    """
    if tensor.dtype not in DTYPES:
        raise BootError(f"{name}: {tensor.dtype} cannot be served")
    if batched and not tensor.ndim:
        raise BootError(f"{name}: a single number has no batch axis; set [options] batched = false")
    axes = tensor.shape[1:] if batched else tensor.shape
    shape = [axis if isinstance(axis, int) else -1 for axis in axes]
    return {"name": name, "dtype": DTYPES[tensor.dtype], "shape": shape}


def arrange_by_name(parameters: Sequence[str], names: Sequence[str]) -> Arrange:
    """Return how the inputs *names* are passed to ``forward``, which has *parameters*.

    :raises BootError: they are not parameters of it; a single input may have any name.
    """
    if set(names) <= set(parameters):
        return lambda tensors: ((), tensors)
    if len(names) == 1:
        return lambda tensors: (tuple(tensors.values()), {})
    unknown = ", ".join(name for name in names if name not in parameters)
    raise BootError(
        f"[signature] inputs: forward() has no {unknown}; it takes {', '.join(parameters)}"
    )

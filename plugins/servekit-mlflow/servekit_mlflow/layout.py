# SPDX-License-Identifier: Apache-2.0
"""The rows of a model: its signature in MLflow's words, as one of servekit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit_mlflow.mlmodel import MLmodel, Spec

__all__ = ["Layout", "Tensor", "layout_of"]

Tensor = dict[str, Any]  #: ``{"name", "dtype", "shape"}`` as in ``model.toml``

#: MLflow's types of columns whose values servekit can declare, by NumPy's names
COLUMNS: Final = {
    "boolean": "bool",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "str",
}
TENSORS: Final = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
)
MAX_DECLARED: Final = 256  #: entries of a signature of servekit


class Layout(NamedTuple):
    """The content of one row of a model."""

    inputs: list[Tensor]
    outputs: list[Tensor]  #: none if they cannot be declared
    is_table: bool  #: the inputs are columns, not tensors
    is_bare: bool  #: the only input is a tensor without a name

    @property
    def signature(self) -> dict[str, Any] | None:
        """The signature of the service; ``None`` if it would be too long."""
        if len(self.inputs) > MAX_DECLARED:
            return None
        outputs = self.outputs if len(self.outputs) <= MAX_DECLARED else []
        return {"inputs": self.inputs, "outputs": outputs}


def layout_of(model: MLmodel) -> Layout | None:
    """Return the rows of *model*.

    ``None`` if it has no signature; if a column may be missing, or holds dates, bytes or objects;
    or if a tensor has a first axis of fixed size. Such models are served by MLflow's rules alone.
    """
    specs = model.specs("inputs")
    inputs = _tensors(specs, "input")
    if not inputs:
        return None
    outputs = _tensors(model.specs("outputs"), "prediction") or []
    is_table = specs[0].tensor is None
    return Layout(inputs, outputs, is_table, is_bare=not is_table and specs[0].name is None)


def _tensors(specs: Sequence[Spec], only: str) -> list[Tensor] | None:
    """Return *specs* as a side of a signature; the name of a single one without any is *only*."""
    names = [spec.name if spec.name or len(specs) > 1 else only for spec in specs]
    tensors = [_tensor(name, spec) for name, spec in zip(names, specs, strict=True) if name]
    declared = [tensor for tensor in tensors if tensor is not None]
    is_mixed = len({spec.tensor is None for spec in specs}) > 1
    is_whole = len(declared) == len(specs) == len(set(names))
    return declared if is_whole and not is_mixed else None


def _tensor(name: str, spec: Spec) -> Tensor | None:
    if spec.tensor is None:
        dtype = COLUMNS.get(spec.type) if spec.required else None
        return {"name": name, "dtype": dtype, "shape": []} if dtype else None
    batch, *shape = spec.tensor.shape or [0]
    is_declared = batch == -1 and spec.tensor.dtype in TENSORS and 0 not in shape
    return {"name": name, "dtype": spec.tensor.dtype, "shape": shape} if is_declared else None

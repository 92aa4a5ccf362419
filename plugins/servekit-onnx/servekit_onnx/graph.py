# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs that a graph declares."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from servekit.errors import BootError
from servekit.types import Array

__all__ = ["Graph", "Tensor", "merge_signature", "read_graph", "type_of_outputs"]

DTYPES = {
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(string)": "str",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
}

Tensor = dict[str, Any]  #: ``{"name", "dtype", "shape"}`` as in ``model.toml``


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The names, shapes and batch axis of a graph."""

    inputs: list[Tensor]
    outputs: list[Tensor]  #: those with a shape; others are served but not described
    output_names: list[str]
    run_size: int | None  #: rows the graph takes per run, ``None`` for any number


def read_graph(session: Any, outputs: Sequence[str], *, batched: bool) -> Graph:
    """Describe the graph of *session* (an onnxruntime ``InferenceSession``).

    :param outputs: names of those to serve; empty for all.
    :param batched: whether the first axis is the batch, and so no part of the signature.
    :raises BootError: the graph cannot be served so; says what to change.
    """
    try:
        return _read(session, outputs, batched)
    except UnicodeDecodeError:
        raise BootError("the graph is broken: a name in it is not UTF-8") from None


def _read(session: Any, outputs: Sequence[str], batched: bool) -> Graph:
    inputs = list(session.get_inputs())
    served = _chosen(list(session.get_outputs()), outputs)
    return Graph(
        inputs=[_input(node, batched) for node in inputs],
        outputs=[_tensor(node, batched) for node in served if _is_described(node, batched)],
        output_names=[node.name for node in served],
        run_size=_run_size(inputs) if batched else None,
    )


def merge_signature(declared: Mapping[str, Any] | None, graph: Graph) -> Mapping[str, Any]:
    """Return the graph's signature, or *declared* where that agrees with it.

    A declared one may say more: a size where the graph takes any.

    :raises BootError: a name, element type or rank differs.
    """
    if declared is None:
        return {"inputs": graph.inputs, "outputs": graph.outputs}
    wanted, known = _kinds(declared["inputs"]), _kinds(graph.inputs)
    if wanted != known:
        raise BootError(f"[signature] inputs: {wanted} is not what the graph takes, {known}")
    return declared


def _kinds(tensors: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return name to element type and rank, ``float32[2]``."""
    return {tensor["name"]: f"{tensor['dtype']}[{len(tensor['shape'])}]" for tensor in tensors}


def _chosen(nodes: list[Any], names: Sequence[str]) -> list[Any]:
    known = {node.name: node for node in nodes}
    for name in names:
        if name not in known:
            raise BootError(f"[options] outputs: {name!r} is not one of {', '.join(known)}")
    return [known[name] for name in names] or nodes


def _input(node: Any, batched: bool) -> Tensor:
    if node.type not in DTYPES:
        raise BootError(f"input {node.name}: {node.type} cannot be served")
    if batched and not node.shape:
        raise BootError(
            f"input {node.name}: a single number has no batch axis; set [options] batched = false"
        )
    return _tensor(node, batched)


def _is_described(node: Any, batched: bool) -> bool:
    return node.type in DTYPES and (bool(node.shape) or not batched)


def _tensor(node: Any, batched: bool) -> Tensor:
    axes = node.shape[1:] if batched else node.shape
    return {"name": node.name, "dtype": DTYPES[node.type], "shape": [_size(axis) for axis in axes]}


def _run_size(inputs: list[Any]) -> int | None:
    """Return the fixed size of the batch axis, which all inputs must share."""
    sizes = {_size(node.shape[0]) for node in inputs} - {-1}
    if len(sizes) > 1:
        named = ", ".join(f"{node.name} {node.shape[0]}" for node in inputs)
        raise BootError(
            f"the first axes differ ({named}), so there is no batch; set [options] batched = false"
        )
    return sizes.pop() if sizes else None


def _size(axis: Any) -> int:
    """Return the size of one axis, -1 for a symbolic or unknown one."""
    return axis if isinstance(axis, int) and axis > 0 else -1


def type_of_outputs(graph: Graph) -> Any:
    """Return the type of what the graph gives for one input, as an annotation."""
    if len(graph.output_names) > 1:
        return dict[str, Any]
    if not graph.outputs:
        return Any
    only = graph.outputs[0]
    return Annotated[np.ndarray, Array(only["dtype"], only["shape"])]

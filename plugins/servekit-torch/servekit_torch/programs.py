# SPDX-License-Identifier: Apache-2.0
"""Programs of ``torch.export``: the file says all about their inputs and outputs."""

import warnings
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from servekit.errors import BootError
from servekit_torch.opened import Arrange, Declared, TorchModel, describe
from servekit_torch.outputs import named_outputs
from servekit_torch.weights import map_records, one_line

__all__ = ["open_program"]

MOST_ROWS = 1 << 31  #: a size with a larger bound is unbounded


def open_program(path: Path, names: list[str], *, batched: bool) -> TorchModel:
    """Return the program in the file at *path*, its weights mapped.

    :param names: of the outputs, as in ``[options]``.
    :raises BootError: it cannot be read, or cannot be served so.
    """
    program = _load(path)
    given = {
        spec.arg.name: spec.arg for spec in program.graph_signature.input_specs
        if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT
    }  # fmt: skip
    nodes = {node.name: node.meta.get("val") for node in program.graph.nodes}
    tensors = {name: nodes[name] for name in given if torch.is_tensor(nodes[name])}
    constants = {name: _constant(arg) for name, arg in given.items() if name not in tensors}
    module, order, spec = program.module(), list(given), program.call_spec.in_spec
    map_records(path, chain(module.parameters(), module.buffers()))
    smallest, largest = _rows(tensors, program) if batched else (1, None)
    return TorchModel(
        module=module,
        arrange=lambda _names: _arrange(order, constants, spec),
        inputs=[describe(name, each, batched=batched) for name, each in tensors.items()],
        outputs=_outputs(program, nodes, names, batched=batched),
        casts={name: each.dtype for name, each in tensors.items()},
        smallest=smallest,
        largest=largest,
    )


def _load(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix == ".pt2":
                return torch.export.load(path)
            with path.open("rb") as file:  # by its name, torch takes it for another kind of file
                return torch.export.load(file)
    except Exception as error:  # noqa: BLE001 - the reader raises anything
        raise BootError(f"{path.name}: torch cannot read it ({one_line(error)})") from None


def _constant(argument: Any) -> Any:
    """Return the value of an input that the program was exported with.

    :raises BootError: it is a number that may differ between calls.
    """
    if not hasattr(argument, "value"):
        raise BootError(f"input {argument.name}: is a number, not a tensor, and cannot be served")
    return argument.value


def _arrange(order: list[str], constants: Mapping[str, Any], spec: Any) -> Arrange:
    def arrange(tensors: Mapping[str, Any]) -> tuple[Any, Any]:
        flat = [tensors[name] if name in tensors else constants[name] for name in order]
        arguments, keywords = pytree.tree_unflatten(flat, spec)
        return arguments, keywords

    return arrange


def _outputs(
    program: Any, nodes: Mapping[str, Any], names: list[str], *, batched: bool
) -> list[Declared]:
    """Describe the outputs that have names; an output that is not computed is a constant."""
    found = [
        nodes.get(spec.arg.name) if hasattr(spec.arg, "name") else None
        for spec in program.graph_signature.output_specs
        if spec.kind is torch.export.graph_signature.OutputKind.USER_OUTPUT
    ]
    result = pytree.tree_unflatten(found, program.call_spec.out_spec)
    outputs = named_outputs(result, names)
    return [describe(name, each, batched=batched) for name, each in outputs.items()]


def _rows(tensors: Mapping[str, Any], program: Any) -> tuple[int, int | None]:
    """Return how many rows a run takes at least and at most.

    :raises BootError: the first axes differ.
    """
    ranges = [_range(tensor.shape[0], program) for tensor in tensors.values() if tensor.ndim]
    smallest = max((low for low, _ in ranges), default=1)
    most = [high for _, high in ranges if high is not None]
    largest = min(most, default=None)
    if largest is not None and smallest > largest:
        raise BootError(
            "the first axes differ, so there is no batch; set [options] batched = false"
        )
    return max(1, smallest), largest


def _range(axis: Any, program: Any) -> tuple[int, int | None]:
    if isinstance(axis, int):
        return axis, axis
    bounds = program.range_constraints.get(axis.node.expr)
    if bounds is None:
        return 1, None
    high = bounds.upper
    return int(bounds.lower), int(high) if high.is_Integer and high < MOST_ROWS else None

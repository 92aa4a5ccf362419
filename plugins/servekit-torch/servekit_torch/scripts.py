# SPDX-License-Identifier: Apache-2.0
"""TorchScript: code and weights in one file."""

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from servekit.errors import BootError
from servekit_torch.opened import DTYPES, Declared, TorchModel, arrange_by_name
from servekit_torch.weights import map_records, one_line

__all__ = ["open_script"]


def open_script(path: Path, *, batched: bool, is_declared: bool) -> TorchModel:
    """Return the TorchScript module in the file at *path*, its weights mapped.

    :param is_declared: there is a signature; otherwise the inputs that a trace was made with tell
        what the inputs are. A module that was scripted has none.
    :raises BootError: it cannot be read, or has no ``forward``.
    """
    inputs = None if is_declared else _traced_inputs(_load(path, _restore_shapes=True), batched)
    module = _load(path).eval()
    if not hasattr(module, "forward"):
        raise BootError(f"{path.name}: the module has no forward()")
    map_records(path, _tensors(module))
    parameters = [each.name for each in module.forward.schema.arguments[1:]]
    return TorchModel(
        module=module, arrange=partial(arrange_by_name, parameters), inputs=inputs, is_script=True
    )


def _load(path: Path, **options: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated; its files are still there
            return torch.jit.load(path, map_location="cpu", **options)
    except Exception as error:  # noqa: BLE001 - the reader raises anything
        raise BootError(f"{path.name}: torch cannot read it ({one_line(error)})") from None


def _tensors(module: Any) -> Iterator[Any]:
    """Yield the tensors of *module*; a frozen one has its weights in its graph."""
    yield from module.parameters()
    yield from module.buffers()
    graph = module.inlined_graph  # the nodes live as long as it does
    for node in graph.findAllNodes("prim::Constant"):
        if node.hasAttribute("value") and node.kindOf("value") == "t":
            yield node.t("value")


def _traced_inputs(module: Any, batched: bool) -> list[Declared] | None:
    """Describe the inputs that *module* was traced with; ``None`` if it does not say."""
    first = int(batched)
    found = []
    for value in list(module.graph.inputs())[1:]:
        kind = value.type()
        is_tensor = isinstance(kind, torch.TensorType) and kind.sizes() is not None
        if not is_tensor or kind.dtype() not in DTYPES or len(kind.sizes()) < first:
            return None
        shape = [int(size) for size in kind.sizes()[first:]]
        name = value.debugName().partition(".")[0]
        found.append({"name": name, "dtype": DTYPES[kind.dtype()], "shape": shape})
    return found or None

# SPDX-License-Identifier: Apache-2.0
"""Serves a graph by its signature: arrays in, arrays out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servekit_onnx.graph import merge_signature
from servekit_onnx.runner import Batch, GraphRunner, batch_length, batch_rows, items_of

__all__ = ["TensorAdapter"]


class TensorAdapter:
    """Passes arrays on, and names the outputs."""

    input_type: Any = None
    output_type: Any = None
    task = ""

    def __init__(self, runner: GraphRunner, declared: Mapping[str, Any] | None) -> None:
        """Merge the signature of the graph with the one *declared* in ``model.toml``."""
        self._runner, self._names = runner, runner.graph.output_names
        self.signature: Mapping[str, Any] | None = merge_signature(declared, runner.graph)

    def warm_up(self) -> None:
        """Run once, if the shapes of the graph say with what."""
        tensors = self._runner.graph.inputs
        if all(-1 not in tensor["shape"] for tensor in tensors):
            self._runner.run({tensor["name"]: _zeros(tensor) for tensor in tensors})

    def answers(self, batch: Batch) -> Any:
        """One output goes bare, arrays go by name, anything else item by item."""
        outputs = self._runner.run(batch)
        if len(self._names) == 1:
            return outputs[0]
        if all(isinstance(rows, np.ndarray) for rows in outputs):
            return dict(zip(self._names, outputs, strict=True))
        return items_of(self._names, outputs)

    def singles(self, batch: Batch) -> list[Batch]:
        """Return a batch for each row of *batch*."""
        return [batch_rows(batch, [index]) for index in range(batch_length(batch))]

    def answer(self, single: Batch) -> Any:
        """Return the answer to a batch of one."""
        return items_of(self._names, self._runner.run(single))[0]


def _zeros(tensor: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    dtype = object if tensor["dtype"] == "str" else tensor["dtype"]
    zeros = np.zeros((1, *tensor["shape"]), dtype)
    if dtype is object:
        zeros[...] = ""
    return zeros

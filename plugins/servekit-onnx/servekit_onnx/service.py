# SPDX-License-Identifier: Apache-2.0
"""The service ``onnx``: one graph, run by onnxruntime."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from servekit import Context, InputError, Service
from servekit_onnx.graph import Graph, merge_signature, read_graph
from servekit_onnx.options import OnnxOptions
from servekit_onnx.session import open_session

__all__ = ["OnnxService"]

Batch = Mapping[str, np.ndarray]
Rows = list[Any]  #: for each output of the graph: an array, or a list if it is not a tensor


class OnnxService(Service):
    """Answers with the outputs of the graph, by their names."""

    def load(self, context: Context) -> None:
        """Open the graph and learn from it what it takes and gives."""
        options = context.read_options(OnnxOptions)
        path = context.find_file(".onnx", file=options.file)
        self._session = open_session(
            path, options, threads=context.threads, replicas=context.replicas
        )
        self._graph: Graph = read_graph(self._session, options.outputs, batched=options.batched)
        self._run = self._run_batch if options.batched else self._run_items
        self._logger = context.logger
        self.signature = merge_signature(self.signature, self._graph)

    def warm_up(self) -> None:
        """Run once, if the shapes of the graph say with what."""
        if all(-1 not in tensor["shape"] for tensor in self._graph.inputs):
            self._run({t["name"]: _zeros(t) for t in self._graph.inputs})

    def predict(self, batch: Batch) -> Any:
        """Run the whole batch; if the graph refuses, find the inputs it refuses."""
        try:
            return _shape(self._graph.output_names, self._run(batch))
        except InvalidArgument:
            size = _length(batch)
            self._logger.warning("refused a batch of %d", size, exc_info=True)
        return [self._answer_one(_rows(batch, [index])) for index in range(size)]

    def _answer_one(self, batch: Batch) -> Any:
        try:
            return _items(self._graph.output_names, self._run(batch))[0]
        except InvalidArgument:
            return InputError("the graph refuses this input")

    def _run_batch(self, batch: Batch) -> Rows:
        """Run as many rows at once as the graph takes; a short last run is padded."""
        count, step = _length(batch), self._graph.run_size
        if step is None or step == count:
            return self._checked(self._session.run(self._graph.output_names, batch), count)
        runs = []
        for start in range(0, count, step):
            padded = np.minimum(np.arange(start, start + step), count - 1)
            rows = self._session.run(self._graph.output_names, _rows(batch, padded))
            runs.append([output[: count - start] for output in self._checked(rows, step)])
        return [_join(parts) for parts in zip(*runs, strict=True)]

    def _run_items(self, batch: Batch) -> Rows:
        """Run each item alone, without a batch axis."""
        runs = [self._run_item(batch, index) for index in range(_length(batch))]
        return [list(rows) for rows in zip(*runs, strict=True)]

    def _run_item(self, batch: Batch, index: int) -> Rows:
        item = {name: np.asarray(rows[index]) for name, rows in batch.items()}
        return list(self._session.run(self._graph.output_names, item))

    def _checked(self, outputs: Rows, count: int) -> Rows:
        """Return *outputs* if each has one row per input: else answers would go astray."""
        for name, rows in zip(self._graph.output_names, outputs, strict=True):
            length = 0 if isinstance(rows, np.ndarray) and rows.ndim == 0 else len(rows)
            if length != count:
                raise ValueError(
                    f"output {name} has {length} instead of {count} rows; name the outputs "
                    "to serve in [options] outputs, or set batched = false"
                )
        return outputs


def _shape(names: list[str], outputs: Rows) -> Any:
    """One output goes bare, arrays go by name, anything else item by item."""
    if len(names) == 1:
        return outputs[0]
    if all(isinstance(rows, np.ndarray) for rows in outputs):
        return dict(zip(names, outputs, strict=True))
    return _items(names, outputs)


def _items(names: list[str], outputs: Rows) -> list[Any]:
    if len(names) == 1:
        return list(outputs[0])
    return [dict(zip(names, row, strict=True)) for row in zip(*outputs, strict=True)]


def _length(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _rows(batch: Batch, indices: Any) -> Batch:
    return {name: rows[indices] for name, rows in batch.items()}


def _join(parts: tuple[Any, ...]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return list(chain.from_iterable(parts))


def _zeros(tensor: Mapping[str, Any]) -> np.ndarray:
    dtype = object if tensor["dtype"] == "str" else tensor["dtype"]
    zeros = np.zeros((1, *tensor["shape"]), dtype)
    if dtype is object:
        zeros[...] = ""
    return zeros

# SPDX-License-Identifier: Apache-2.0
"""Runs a graph with batches of any size."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from servekit.errors import BootError
from servekit_onnx.graph import Graph

__all__ = ["Batch", "GraphRunner", "Rows", "batch_length", "batch_rows", "items_of"]

Array = np.ndarray[Any, Any]
Batch = Mapping[str, Array]  #: for each input of the graph: an array with a row for each input
Rows = list[Any]  #: for each output of the graph: an array, or a list if it is not a tensor

REASON_CHARS = 300  #: characters of a message of onnxruntime


class GraphRunner:
    """Runs one session."""

    def __init__(self, session: Any, graph: Graph, *, batched: bool) -> None:
        """Keep the *session* of *graph*; see ``read_graph`` for *batched*."""
        self.session, self.graph, self._batched = session, graph, batched
        self.run = self._run_batch if batched else self._run_items

    def with_graph(self, graph: Graph) -> "GraphRunner":
        """Return a runner of the same session for the outputs of *graph*."""
        return GraphRunner(self.session, graph, batched=self._batched)

    def try_run(self, batch: Batch, place: str) -> Rows:
        """Run a batch that the options in *place* of ``model.toml`` have made.

        :raises BootError: the graph refuses it.
        """
        try:
            return self.run(batch)
        except Exception as error:  # noqa: BLE001 - onnxruntime has no base class
            reason = " ".join(str(error).split())[:REASON_CHARS]
            raise BootError(f"{place}: the graph refuses what it makes ({reason})") from None

    def _run_batch(self, batch: Batch) -> Rows:
        """Run as many rows at once as the graph takes; a short last run is padded."""
        count, step = batch_length(batch), self.graph.run_size
        if step is None or step == count:
            return self._checked(self.session.run(self.graph.output_names, batch), count)
        runs = []
        for start in range(0, count, step):
            padded = np.minimum(np.arange(start, start + step), count - 1)
            rows = self.session.run(self.graph.output_names, batch_rows(batch, padded))
            runs.append([output[: count - start] for output in self._checked(rows, step)])
        return [_join(parts) for parts in zip(*runs, strict=True)]

    def _run_items(self, batch: Batch) -> Rows:
        """Run each item alone, without a batch axis."""
        runs = [self._run_item(batch, index) for index in range(batch_length(batch))]
        return [list(rows) for rows in zip(*runs, strict=True)]

    def _run_item(self, batch: Batch, index: int) -> Rows:
        item = {name: np.asarray(rows[index]) for name, rows in batch.items()}
        return list(self.session.run(self.graph.output_names, item))

    def _checked(self, outputs: Rows, count: int) -> Rows:
        """Return *outputs* if each has one row per input: else answers would go astray."""
        for name, rows in zip(self.graph.output_names, outputs, strict=True):
            length = 0 if isinstance(rows, np.ndarray) and rows.ndim == 0 else len(rows)
            if length != count:
                raise ValueError(
                    f"output {name} has {length} instead of {count} rows; name the outputs "
                    "to serve in [options] outputs, or set batched = false"
                )
        return outputs


def batch_length(batch: Batch) -> int:
    """Return the number of rows of *batch*."""
    return len(next(iter(batch.values())))


def batch_rows(batch: Batch, indices: Sequence[int] | Array) -> Batch:
    """Return the rows of *batch* at *indices*."""
    return {name: rows[indices] for name, rows in batch.items()}


def items_of(names: Sequence[str], outputs: Rows) -> list[Any]:
    """Return the outputs of each input: the only one bare, several by name."""
    if len(names) == 1:
        return list(outputs[0])
    return [dict(zip(names, row, strict=True)) for row in zip(*outputs, strict=True)]


def _join(parts: tuple[Any, ...]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return list(chain.from_iterable(parts))

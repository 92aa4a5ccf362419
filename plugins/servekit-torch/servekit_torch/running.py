# SPDX-License-Identifier: Apache-2.0
"""Runs a module on stacked arrays."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from typing import Any, Final

import numpy as np
import torch

from servekit.errors import WrongBatchLength
from servekit_torch.opened import Arrange
from servekit_torch.outputs import named_outputs, to_array
from servekit_torch.runs import RunSizes

__all__ = ["Arrays", "Batch", "ModelRunner", "rows_of"]

Batch = Mapping[str, np.ndarray[Any, Any]]
Arrays = dict[str, np.ndarray[Any, Any]]
IMAGES_NDIM: Final = 4  #: other tensors have no such layout


class ModelRunner:
    """Turns arrays into tensors and back without copying them, unless they change device."""

    def __init__(
        self,
        call: Callable[..., Any],
        arrange: Arrange,
        sizes: RunSizes,
        device: Any,
        *,
        casts: Mapping[str, Any],
        names: Sequence[str],
        batched: bool,
        channels_last: bool,
        logger: Logger,
    ) -> None:
        """Run *call*, whose arguments *arrange* makes of the tensors.

        :param casts: the dtypes of the inputs that are cast.
        :param names: of the outputs, as in ``[options]``.
        """
        self._call, self._arrange, self._sizes, self._device = call, arrange, sizes, device
        self._casts, self._names, self._logger = casts, names, logger
        self._batched = batched  #: whether the first axis of every input is the batch
        self._channels_last = channels_last
        # a request that runs alone is a view of its body, which NumPy protects
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        self._copies = False  #: the model writes into its inputs

    def run_all(self, batch: Batch) -> Arrays:
        """Return the outputs of *batch*, ``[n, ...]`` by name, in runs of the sizes it takes.

        :raises WrongBatchLength: an output does not have one row for each input.
        """
        count = len(next(iter(batch.values())))
        if not self._batched:
            return _joined([self._run_item(batch, place) for place in range(count)])
        parts = []
        for start, stop, size in self._sizes.runs(count):
            if size == count:
                return self._run_rows(batch, size)
            rows = np.minimum(np.arange(start, start + size), count - 1)
            outputs = self._run_rows(rows_of(batch, rows), size)
            parts.append({name: each[: stop - start] for name, each in outputs.items()})
        return _joined(parts)

    def _run_item(self, batch: Batch, place: int) -> Arrays:
        """Return ``[1, ...]`` for the item at *place*, which runs alone, without a batch axis."""
        outputs = self._run({name: np.asarray(rows[place]) for name, rows in batch.items()})
        return {name: each[np.newaxis] for name, each in outputs.items()}

    def _run_rows(self, batch: Batch, count: int) -> Arrays:
        outputs = self._run(batch)
        for name, rows in outputs.items():
            if not rows.ndim or len(rows) != count:
                length = len(rows) if rows.ndim else 0
                raise WrongBatchLength(
                    f"output {name} has {length} instead of {count} rows; name the outputs to "
                    "serve in [options] outputs, or set batched = false"
                )
        return outputs

    def _run(self, arrays: Batch) -> Arrays:
        given = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if self._copies:
            given = {name: tensor.clone() for name, tensor in given.items()}
        with torch.inference_mode():
            placed = {name: self._placed(name, tensor) for name, tensor in given.items()}
            arguments, keywords = self._arrange(placed)
            outputs = named_outputs(self._call(*arguments, **keywords), self._names)
            found = {name: to_array(tensor) for name, tensor in outputs.items()}
        if not self._copies and any(tensor._version for tensor in given.values()):  # noqa: SLF001
            self._copies = True
            self._logger.warning("the model writes into its inputs and gets copies from now on")
        return found

    def _placed(self, name: str, tensor: Any) -> Any:
        dtype = self._casts.get(name, tensor.dtype)
        placed = tensor.to(self._device, dtype, non_blocking=True)
        if not self._channels_last or placed.ndim != IMAGES_NDIM:
            return placed
        return placed.contiguous(memory_format=torch.channels_last)


def rows_of(batch: Batch, places: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the rows at *places* of each array."""
    return {name: rows[places] for name, rows in batch.items()}


def _joined(parts: Sequence[Arrays]) -> Arrays:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

# SPDX-License-Identifier: Apache-2.0
"""The service ``trees``: one model of XGBoost or LightGBM."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - annotations of predict are read
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from servekit import Context, Service
from servekit.errors import BootError
from servekit_trees.boosters import open_booster
from servekit_trees.hooks import model_files
from servekit_trees.options import TreesOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servekit_trees.boosters import Booster

__all__ = ["TreesService"]

MAX_INPUTS: Final = 256  #: columns that are separate inputs; wider tables are one list


class TreesService(Service):
    """Answers with label and probabilities, or with the prediction."""

    def load(self, context: Context) -> None:
        """Open the model, and learn from it what it takes and gives."""
        options = context.read_options(TreesOptions)
        path = _path_of(context, options.file)
        booster = open_booster(path, threads=context.threads, is_raw=options.raw)
        self._booster = booster
        self._is_classifier = bool(booster.classes) and not options.raw
        self._labels = _labels(options.labels, booster)
        inputs = self.signature["inputs"] if self.signature else _inputs_of(booster)
        self._names = _names_of(inputs, booster)
        self.signature = {"inputs": inputs, "outputs": []}
        example = np.zeros((1, booster.features), booster.dtype)
        outputs = self._answers(example)
        self.signature["outputs"] = [
            _tensor(name, _dtype_of(rows), [*rows.shape[1:]]) for name, rows in outputs.items()
        ]

    def predict(self, batch: Mapping[str, Any]) -> Any:
        """Return the outputs by name, or the only one alone."""
        columns = [batch[name] for name in self._names]
        rows = columns[0].reshape(len(columns[0]), -1) if len(columns) == 1 else None
        outputs = self._answers(np.column_stack(columns) if rows is None else rows)
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    def _answers(self, rows: Any) -> dict[str, Any]:
        scores = np.asarray(self._booster.predict(np.ascontiguousarray(rows, self._booster.dtype)))
        if not self._is_classifier:
            return {"prediction": scores}
        if scores.ndim == 1:
            scores = np.stack([1 - scores, scores], axis=1)
        return {"label": self._labels[scores.argmax(axis=1)], "probabilities": scores}


def _path_of(context: Context, file: str) -> Path:
    """Return the file of the model: that of the options, or the only one.

    :raises BootError: there is none, or several.
    """
    if file:
        return context.find_file(file=file)
    found = model_files(context.directory)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise BootError(f"expected one model of XGBoost or LightGBM, found {names}")
    return found[0]


def _labels(given: list[str], booster: Booster) -> Any:
    if given and len(given) != booster.classes:
        wanted = f"the model has {booster.classes} classes" if booster.classes else "no classifier"
        raise BootError(f"[options] labels: {len(given)}, but {wanted}")
    return np.array(given, object) if given else np.arange(booster.classes or 1)


def _inputs_of(booster: Booster) -> list[dict[str, Any]]:
    if 0 < len(booster.names) <= MAX_INPUTS:
        return [_tensor(name, booster.dtype, []) for name in booster.names]
    return [_tensor("x", booster.dtype, [booster.features])]


def _names_of(inputs: Sequence[Mapping[str, Any]], booster: Booster) -> list[str]:
    """Return the inputs in the order of the model's columns.

    :raises BootError: a declared signature does not fit the model.
    """
    names = [tensor["name"] for tensor in inputs]
    sizes = [int(np.prod(tensor["shape"])) for tensor in inputs]
    if {*names} == {*booster.names} and all(size == 1 for size in sizes):
        return booster.names
    if len(names) > 1 and booster.names:
        lacking = ", ".join(sorted({*booster.names} - {*names})) or "nothing"
        raise BootError(f"[signature] differs from the columns of the model; it lacks {lacking}")
    if sum(sizes) != booster.features:
        raise BootError(f"[signature] has {sum(sizes)} numbers, the model takes {booster.features}")
    return names


def _dtype_of(rows: Any) -> str:
    return "str" if rows.dtype == object else rows.dtype.name


def _tensor(name: str, dtype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape}

# SPDX-License-Identifier: Apache-2.0
"""Joins the stacked inputs of a signature to the rows an estimator takes."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from servekit.errors import BootError

__all__ = ["Join", "choose_join"]

Join = Callable[[Any], Any]  #: a batch as ``predict`` gets it in, rows out


def choose_join(model: Any, signature: Mapping[str, Any] | None) -> Join:
    """Return how a batch becomes rows for *model*.

    :raises BootError: *signature* lacks a column that *model* was trained with.
    """
    if signature is None:
        return list
    inputs = [tensor["name"] for tensor in signature["inputs"]]
    trained = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if len(inputs) == 1 and inputs != trained:
        return lambda batch: _flat(batch[inputs[0]])
    lacking = sorted(set(trained) - set(inputs))
    if lacking:
        raise BootError(f"[signature] lacks what the model was trained with: {', '.join(lacking)}")
    columns = trained or inputs
    return _data_frame(columns) if trained else lambda batch: _stack(batch, columns)


def _data_frame(columns: list[str]) -> Join:
    """Columns with names came from a data frame, so give one back where pandas is installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return lambda batch: _stack(batch, columns)
    return lambda batch: pandas.DataFrame({name: batch[name] for name in columns})


def _stack(batch: Mapping[str, np.ndarray], columns: list[str]) -> np.ndarray:
    return np.hstack([_flat(batch[name]) for name in columns])


def _flat(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(len(rows), -1)

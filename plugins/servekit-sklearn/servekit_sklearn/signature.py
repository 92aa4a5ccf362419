# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of an estimator, as far as it declares them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["example_batch", "inputs_of", "outputs_of"]

Tensor = dict[str, Any]  #: ``{"name", "dtype", "shape"}`` as in ``model.toml``


MAX_INPUTS = 256  # in a signature; wider tables are one row of numbers


def inputs_of(model: Any) -> list[Tensor] | None:
    """Return the inputs of *model*: its named columns, or one row ``x`` of numbers.

    ``None`` if it does not take columns, as a pipeline that begins with a vectoriser of documents.
    """
    names = getattr(model, "feature_names_in_", ())
    if 0 < len(names) <= MAX_INPUTS:
        return [_tensor(str(name), "float64", []) for name in names]
    count = getattr(model, "n_features_in_", None)
    return None if count is None else [_tensor("x", "float64", [int(count)])]


def outputs_of(outputs: Mapping[str, np.ndarray]) -> list[Tensor]:
    """Describe *outputs*, the answer to one example."""
    return [_tensor(name, _dtype(rows), list(rows.shape[1:])) for name, rows in outputs.items()]


def _dtype(rows: np.ndarray) -> str:
    return rows.dtype.name if rows.dtype.kind in "biuf" else "str"


def example_batch(inputs: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return a batch of one item, all zeros, that fits *inputs*."""
    return {
        tensor["name"]: np.zeros((1, *(max(size, 1) for size in tensor["shape"])), tensor["dtype"])
        for tensor in inputs
    }


def _tensor(name: str, dtype: str, shape: list[int]) -> Tensor:
    return {"name": name, "dtype": dtype, "shape": shape}

# SPDX-License-Identifier: Apache-2.0
"""Outputs to tables: a column for each output, or a single row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = ["table_of"]

LONE: Final = "prediction"  #: the column of outputs without a name


def table_of(output: Any, *, is_flat: bool) -> Any:
    """Return the table of *output*: arrays by name, an array, or a list of mappings.

    :param is_flat: an array for each row becomes a column for each of its elements,
        ``probabilities_0`` and so on; otherwise a column of lists.
    :raises TypeError: the outputs make no table.
    """
    columns: dict[str, Any] = {}
    for name, values in _columns(output).items():
        array = np.asarray(values)
        if array.dtype.kind == "U" and array is not values:  # numbers among text become text
            array = np.asarray(values, object)
        array = array if array.ndim else array.reshape(1)
        if is_flat and array.ndim > 1:
            flat = array.reshape(len(array), math.prod(array.shape[1:]))
            columns |= {f"{name}_{place}": flat[:, place] for place in range(flat.shape[1])}
        else:
            columns[name] = array
    try:
        return pa.table({name: _arrow(array) for name, array in columns.items()})
    except (pa.ArrowException, ValueError) as error:
        raise TypeError(f"no table: {error}") from error


def _columns(output: Any) -> Mapping[str, Any]:
    if isinstance(output, Mapping):
        return {str(name): values for name, values in output.items()}
    if isinstance(output, list) and output and all(isinstance(row, Mapping) for row in output):
        names = output[0].keys()
        if any(row.keys() != names for row in output):
            raise TypeError("no table: the outputs have different names")
        return {str(name): [row[name] for row in output] for name in names}
    return {LONE: output}


def _arrow(array: Any) -> Any:
    if array.ndim == 1:
        return pa.array(array.tolist() if array.dtype.kind in "OU" else array)
    return pa.FixedSizeListArray.from_arrays(
        _arrow(array.reshape(-1, *array.shape[2:])), array.shape[1]
    )

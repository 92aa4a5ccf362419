# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of plain requests, so that those of several can be predicted together.

A request is plain if MLflow would certainly make the same columns or tensors of it, whatever other
rows there are: it has every input, and each value has the type of its column. All others are left
to MLflow.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from servekit_mlflow.formats import FrameSplit, InvocationBody

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit_mlflow.layout import Layout, Tensor

__all__ = ["PlainRows", "RowReader", "join"]

#: the types of the values of a column; ``None`` is a missing number
KINDS: Final[Mapping[str, frozenset[type]]] = {
    "bool": frozenset((bool,)),
    "int32": frozenset((int,)),
    "int64": frozenset((int,)),
    "float32": frozenset((float, int, type(None))),
    "float64": frozenset((float, int, type(None))),
    "str": frozenset((str,)),
}
INT32: Final = range(-(2**31), 2**31)
#: the errors for bodies that are not plain
UNREADABLE: Final = (ValueError, TypeError, LookupError, OverflowError, RecursionError)


class PlainRows(NamedTuple):
    """The rows of one request."""

    #: by name of the input: the values of a column, or an array ``[length, *shape]``
    values: Mapping[str, Sequence[Any]]
    length: int
    params: bytes  #: JSON

    @property
    def key(self) -> tuple[Any, ...]:
        """The properties that requests must share if their rows are predicted together."""
        return self.params, *(getattr(each, "shape", ())[1:] for each in self.values.values())


class RowReader:
    """Reads the plain requests for one model."""

    def __init__(self, layout: Layout) -> None:
        """Read rows of *layout*."""
        self._inputs = {tensor["name"]: tensor for tensor in layout.inputs}
        self._is_table, self._is_bare = layout.is_table, layout.is_bare
        self._decode = msgspec.json.Decoder(InvocationBody).decode

    def read(self, body: str) -> PlainRows | None:
        """Return the rows of the JSON text *body*; ``None`` if it is not plain."""
        try:
            request = self._decode(body)
            values = self._columns(request.only) if self._is_table else self._tensors(request)
        except UNREADABLE:  # MLflow says what is wrong
            return None
        lengths = set(map(len, values.values())) if values else set()
        length = lengths.pop() if len(lengths) == 1 else 0
        return PlainRows(values, length, bytes(request.params)) if values and length else None

    def _columns(self, given: Any) -> dict[str, Sequence[Any]] | None:
        if isinstance(given, FrameSplit):
            columns = _of_split(given, self._inputs)
        elif isinstance(given, dict):
            is_whole = given.keys() == self._inputs.keys()
            columns = given if is_whole and all(map(_is_list, given.values())) else None
        elif isinstance(given, list):
            columns = {name: [row[name] for row in given] for name in self._inputs}
        else:
            return None
        return columns if columns is not None and self._fit(columns) else None

    def _fit(self, columns: Mapping[str, Sequence[Any]]) -> bool:
        return all(_fits(columns[name], tensor["dtype"]) for name, tensor in self._inputs.items())

    def _tensors(self, request: InvocationBody) -> dict[str, Any] | None:
        given = request.only
        if self._is_bare and isinstance(given, list) and given is not request.dataframe_records:
            (tensor,) = self._inputs.values()
            given = {tensor["name"]: given}
        if not isinstance(given, dict) or given.keys() != self._inputs.keys():
            return None
        arrays = {name: np.array(given[name], self._inputs[name]["dtype"]) for name in self._inputs}
        shapes = all(_has_shape(arrays[name], self._inputs[name]) for name in arrays)
        return arrays if shapes else None


def _of_split(split: FrameSplit, names: Mapping[str, Any]) -> dict[str, Sequence[Any]] | None:
    columns, rows = split.columns, split.data
    is_indexed = split.index is not None and len(split.index) != len(rows)
    is_ragged = any(len(row) != len(columns) for row in rows)
    if is_indexed or is_ragged or len(set(columns)) != len(columns):
        return None
    values = dict(zip(columns, zip(*rows, strict=True), strict=True))
    return {name: values[name] for name in names}


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _fits(values: Sequence[Any], dtype: str) -> bool:
    if not KINDS[dtype].issuperset(map(type, values)):
        return False
    return dtype != "int32" or (min(values) in INT32 and max(values) in INT32)


def _has_shape(array: Any, tensor: Tensor) -> bool:
    wanted = tensor["shape"]
    fits = zip(array.shape[1:], wanted, strict=False)
    return array.ndim == len(wanted) + 1 and all(size in (has, -1) for has, size in fits)


def join(parts: Sequence[PlainRows], layout: Layout) -> dict[str, Any]:
    """Return the inputs of *parts*, in their order: by name, a list of strings or an array.

    :raises OverflowError: a number is too large for its column.
    """
    return {
        tensor["name"]: _joined([part.values[tensor["name"]] for part in parts], tensor["dtype"])
        for tensor in layout.inputs
    }


def _joined(parts: Sequence[Sequence[Any]], dtype: str) -> Any:
    if isinstance(parts[0], np.ndarray):
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    values = list(chain.from_iterable(parts))
    return values if dtype == "str" else np.array(values, dtype)

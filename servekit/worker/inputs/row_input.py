# SPDX-License-Identifier: Apache-2.0
"""Requests with a batch axis: arrays ``[count, *shape]``, checked and passed on as a whole."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from servekit.counting import counted
from servekit.extension.envelope import Column, Rows
from servekit.worker.inputs.declared_arrays import Arrays, DeclaredArrays
from servekit.worker.inputs.input_kind import refusal
from servekit.worker.inputs.json_arrays import SMALLEST, list_readers
from servekit.worker.inputs.tensors import Array, TensorReader

__all__ = ["UNNAMED", "RowInput", "columns_of", "cut"]

UNNAMED: Final = ""  #: name of outputs that ``predict`` has returned without one


class RowTensorReader(TensorReader):
    """Reads arrays with a batch axis before the declared shape; an empty list has no rows."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        super().__init__({**declared, "shape": [-1, *declared["shape"]]})
        one: Any = TensorReader(declared).exact
        #: a type of JSON that numpy makes the array of without a check; ``None`` if there is none
        self.exact_rows: Any = one
        if one is not None:
            self.exact_rows = Annotated[list[one], msgspec.Meta(min_length=1)]

    def _shaped(self, array: Array) -> Array:
        if array.shape == (0,):
            array = array.reshape(0, *(max(size, 0) for size in self.shape[1:]))
        return super()._shaped(array)


class RowInput:
    """Reads the rows of one request, and checks them against a signature."""

    def __init__(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Compile the checks of *inputs*, whose shapes have no batch axis."""
        tensors = [RowTensorReader(entry) for entry in inputs]
        self._arrays = DeclaredArrays(tensors)
        self._declared = {entry["name"]: entry for entry in inputs}
        self._names = [tensor.name for tensor in tensors]
        self._dtypes = [tensor.dtype for tensor in tensors]
        types = {tensor.name: tensor.exact_rows for tensor in tensors}
        is_one, are_known = len(tensors) == 1, None not in types.values()
        self._small = list_readers(types, may_be_alone=is_one) if are_known else {}

    def decode_json(self, body: bytes) -> Rows:
        """Decode *body*, an object of inputs or the one input alone.

        :raises InputError: with every wrong field.
        """
        read = self._small.get(body[:1]) if len(body) < SMALLEST else None
        if read is not None:
            with suppress(ValueError):  # every error of msgspec is one; it is explained below
                pairs = zip(read(body), self._dtypes, strict=True)
                return self._of(tuple(np.array(lists, dtype) for lists, dtype in pairs))
        return self._of(self._arrays.decode_json(body))

    def check(self, value: Any) -> Rows:
        """Check a decoded value: ``Rows``, a mapping of inputs or the one input alone.

        :raises InputError: with every wrong field.
        """
        if type(value) is not Rows:
            return self._of(self._arrays.check(value))
        values = columns_of(value, self._names[0])
        if any(isinstance(each, Column) for each in values.values()):
            values = self._of_table(values)
        found = self._of(self._arrays.check(values))
        if found.count != value.count:
            raise refusal([("", f"{counted(found.count, 'row')}, expected {value.count}")])
        return found

    def _of_table(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of *columns*, of the dtypes that are declared.

        If the only input is a list for each row, columns of other names are its elements.

        :raises InputError: with every wrong column.
        """
        lone = self._names[0] if len(self._names) == 1 else ""
        are_elements = lone and lone not in columns and len(self._declared[lone]["shape"]) == 1
        dtypes = {name: entry["dtype"] for name, entry in self._declared.items()}
        arrays, wrong = dict(columns), []
        for name, column in columns.items():
            dtype = dtypes[lone] if are_elements else dtypes.get(name)
            if dtype is not None and isinstance(column, Column):
                try:
                    arrays[name] = column.array(dtype)
                except ValueError as error:
                    wrong.append((name, str(error)))
        if wrong:
            raise refusal(wrong)
        return {lone: np.stack([*arrays.values()], axis=1)} if are_elements else arrays

    def _of(self, arrays: Arrays) -> Rows:
        count = len(arrays[0])
        wrong = [
            (name, f"{counted(len(array), 'row')}, but {self._names[0]} has {count}")
            for name, array in zip(self._names, arrays, strict=True)
            if len(array) != count
        ]
        if wrong:
            raise refusal(wrong)
        return Rows(dict(zip(self._names, arrays, strict=True)), count)


def columns_of(rows: Rows, lone: str) -> Mapping[str, Any]:
    """Return the values of *rows* by name.

    :param lone: name of the values if they have none.
    """
    if UNNAMED not in rows.values:
        return rows.values
    value = rows.values[UNNAMED]
    if type(value) is not list or not value or not isinstance(value[0], Mapping):
        return {lone: value}
    names = value[0].keys()
    if not all(isinstance(each, Mapping) and each.keys() == names for each in value):
        return {lone: value}
    return {name: [each[name] for each in value] for name in names}


def cut(rows: Rows) -> list[dict[str, Any]]:
    """Return *rows* one by one, for methods that take single inputs.

    :raises InputError: the arrays differ in their number of rows.
    """
    wrong = [
        (name, f"{counted(len(values), 'row')}, expected {rows.count}")
        for name, values in rows.values.items()
        if len(values) != rows.count
    ]
    if wrong:
        raise refusal(wrong)
    if not rows.values:
        return [{} for _ in range(rows.count)]
    columns = zip(*rows.values.values(), strict=True)
    return [dict(zip(rows.values, row, strict=True)) for row in columns]

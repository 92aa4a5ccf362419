# SPDX-License-Identifier: Apache-2.0
"""Rows whose columns become arrays when their dtypes are known."""

import numpy as np
import pytest

from servekit.errors import InputError
from servekit.extension import Column, Rows
from servekit.worker.inputs.signed_input import SignedInput


class Words(Column):
    """Elements as text."""

    def __init__(self, *elements):
        self.elements = elements

    def array(self, dtype):
        try:
            return np.array(self.elements).astype(object if dtype == "str" else dtype)
        except ValueError:
            raise ValueError(f"not {dtype}") from None


def declared(**inputs):
    return SignedInput(
        {"inputs": [{"name": n, "dtype": d, "shape": s} for n, (d, s) in inputs.items()]}
    )


def test_columns_have_the_declared_dtypes():
    kind = declared(a=("int8", []), b=("str", []))
    rows = kind.check(Rows({"b": Words("01", "2"), "a": Words("01", "2")}, 2))

    assert (rows.values["a"].dtype, rows.values["a"].tolist()) == (np.int8, [1, 2])
    assert rows.values["b"].tolist() == ["01", "2"]


def test_columns_of_other_names_are_the_elements_of_an_only_list():
    kind = declared(x=("float32", [2]))
    columns = {"length": Words("1", "2", "3"), "width": Words("4", "5", "6")}
    rows = kind.check(Rows(columns, 3))

    assert rows.values["x"].tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]


@pytest.mark.parametrize(
    ("kind", "columns", "message"),
    [
        (declared(a=("int8", [])), {"a": Words("x")}, "a: not int8"),
        (declared(a=("int8", [])), {"b": Words("1")}, "a: missing; b: unknown input, expected a"),
        (declared(a=("int8", [2])), {"b": Words("x"), "c": Words("y")}, "b: not int8; c: not int8"),
        (declared(a=("int8", [3])), {"b": Words("1"), "c": Words("2")}, "a: shape"),
    ],
)
def test_every_wrong_column_is_named(kind, columns, message):
    with pytest.raises(InputError, match=message):
        kind.check(Rows(columns, 1))

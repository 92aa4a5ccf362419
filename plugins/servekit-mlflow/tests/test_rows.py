# SPDX-License-Identifier: Apache-2.0
"""Which requests are plain, and what is made of them together."""

import json

import numpy as np
import pytest
from servekit_mlflow.layout import Layout
from servekit_mlflow.rows import RowReader, join

X, TEXT = ({"name": name, "dtype": dtype, "shape": []} for name, dtype in
           (("x", "float64"), ("text", "str")))  # fmt: skip
TABLE = Layout([X, TEXT], [], is_table=True, is_bare=False)
ARRAY = Layout([{"name": "input", "dtype": "float32", "shape": [2]}], [], False, True)
NAMED = Layout([{"name": "a", "dtype": "int64", "shape": [-1]}], [], False, False)


def split(*columns, **more):
    return {"dataframe_split": {"columns": columns, **more}}


def column(dtype):
    return Layout([{"name": "x", "dtype": dtype, "shape": []}], [], is_table=True, is_bare=False)


@pytest.mark.parametrize(
    "body",
    [
        split("x", "text", data=[[1, "a"], [2.5, "b"]]),
        split("text", "x", data=[["a", 1], ["b", 2.5]]),
        split("x", "more", "text", data=[[1, 0, "a"], [2.5, 0, "b"]]),
        split("x", "text", data=[[1, "a"], [2.5, "b"]], index=[7, 8]),
        {"dataframe_records": [{"x": 1, "text": "a"}, {"x": 2.5, "text": "b", "more": None}]},
        {"instances": [{"x": 1, "text": "a"}, {"x": 2.5, "text": "b"}]},
        {"inputs": {"x": [1, 2.5], "text": ["a", "b"]}},
        {"inputs": {"x": [1, 2.5], "text": ["a", "b"]}, "params": None},
    ],
)  # fmt: skip
def test_plain_tables(body):
    rows = RowReader(TABLE).read(json.dumps(body))
    inputs = join([rows, rows], TABLE)

    assert (rows.length, rows.params) == (2, b"null")
    assert inputs["x"].dtype == np.float64
    assert inputs["x"].tolist() == [1, 2.5, 1, 2.5]
    assert inputs["text"] == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("layout", "body"),
    [
        pytest.param(TABLE, {"dataframe_split": {"columns": ["x"], "data": [[1]]}}, id="no text"),
        pytest.param(TABLE, {"dataframe_split": {"data": [[1, "a"]]}}, id="no names"),
        pytest.param(
            TABLE, {"dataframe_split": {"columns": ["x", "text"], "data": [[1]]}}, id="ragged"
        ),
        pytest.param(
            TABLE,
            {"dataframe_split": {"columns": ["x", "x", "text"], "data": [[1, 2, "a"]]}},
            id="one name twice",
        ),
        pytest.param(
            TABLE,
            {"dataframe_split": {"columns": ["x", "text"], "data": [[1, "a"]], "index": []}},
            id="an index of another length",
        ),
        pytest.param(
            TABLE, {"dataframe_records": [{"x": "1", "text": "a"}]}, id="a number as text"
        ),
        pytest.param(TABLE, {"dataframe_records": [{"x": True, "text": "a"}]}, id="a boolean"),
        pytest.param(TABLE, {"dataframe_records": []}, id="no rows"),
        pytest.param(TABLE, {"dataframe_records": {"x": [1], "text": ["a"]}}, id="not records"),
        pytest.param(TABLE, {"inputs": {"x": 1, "text": "a"}}, id="scalars"),
        pytest.param(TABLE, {"inputs": {"x": [1, 2], "text": ["a"]}}, id="other lengths"),
        pytest.param(TABLE, {"inputs": [[1, "a"]]}, id="rows without names"),
        pytest.param(
            TABLE, {"inputs": {"x": [1], "text": ["a"]}, "instances": []}, id="two formats"
        ),
        pytest.param(TABLE, {"messages": []}, id="a chat"),
        pytest.param(TABLE, [], id="a list"),
        pytest.param(column("int64"), {"inputs": {"x": [1.0]}}, id="a float for an integer"),
        pytest.param(column("int32"), {"inputs": {"x": [2**31]}}, id="too large"),
        pytest.param(ARRAY, {"inputs": [1, 2]}, id="no batch axis"),
        pytest.param(ARRAY, {"inputs": [[1, 2, 3]]}, id="another shape"),
        pytest.param(ARRAY, {"inputs": [[1, 2], [3]]}, id="a ragged array"),
        pytest.param(ARRAY, {"dataframe_records": [{"0": 1, "1": 2}]}, id="records for a tensor"),
        pytest.param(NAMED, {"inputs": [[1, 2]]}, id="a tensor without its name"),
    ],
)
def test_what_is_left_to_mlflow(layout, body):
    assert RowReader(layout).read(json.dumps(body)) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="cut short"),
        pytest.param('{"inputs": {"x": [NaN]}}', id="not a number"),
        pytest.param('{"inputs": {"x": [1e999]}}x', id="more text"),
        pytest.param("[" * 100_000, id="deep lists"),
        pytest.param('{"inputs": ' + "[" * 100_000, id="deep inputs"),
        pytest.param('{"params": ' + '{"a":' * 100_000, id="deep parameters"),
    ],
)
def test_json_that_only_mlflow_may_read(text):
    assert RowReader(column("float64")).read(text) is None


def test_a_missing_number_is_nan():
    rows = RowReader(column("float32")).read('{"inputs": {"x": [null, 1]}}')
    values = join([rows], column("float32"))["x"]

    assert values.dtype == np.float32
    assert np.isnan(values[0])


@pytest.mark.parametrize("name", ["inputs", "instances"])
def test_tensors(name):
    reader = RowReader(ARRAY)
    parts = [reader.read(json.dumps({name: rows})) for rows in ([[1, 2]], [[3, 4], [5, 6]])]

    assert [part.length for part in parts] == [1, 2]
    assert join(parts, ARRAY)["input"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_requests_of_other_shapes_or_parameters_are_not_joined():
    reader = RowReader(NAMED)
    bodies = ['{"inputs": {"a": [[1]]}}', '{"inputs": {"a": [[1, 2]]}}',
              '{"inputs": {"a": [[1]]}, "params": {"k": 1}}']  # fmt: skip

    assert len({reader.read(body).key for body in bodies}) == 3

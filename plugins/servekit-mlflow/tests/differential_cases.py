# SPDX-License-Identifier: Apache-2.0
"""Requests for ``test_differential``: model, name, body, and content type if it is not JSON."""

import json

NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
ROWS = [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3], [6, 2.9, 4.5, 1]]
RECORDS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
COLUMNS = {name: [row[name] for row in RECORDS] for name in NAMES}
SPLIT = {"columns": NAMES, "data": ROWS}
CSV = "\n".join([",".join(NAMES), *(",".join(map(str, row)) for row in ROWS)])
ODD = {"number": 1.5, "text": "a"}
TYPED = {"flag": True, "small": 1, "large": 2**40, "single": 0.1, "text": "a",
         "when": "2026-11-22T10:00:00", "raw": "AAH/"}  # fmt: skip


def with_value(name, value):
    """Return the first record with another *value*."""
    return [{**RECORDS[0], name: value}]


IRIS = {
    "split": {"dataframe_split": SPLIT},
    "split, one row": {"dataframe_split": {**SPLIT, "data": ROWS[:1]}},
    "split with index": {"dataframe_split": {**SPLIT, "index": [3, 4, 5]}},
    "split with a short index": {"dataframe_split": {**SPLIT, "index": [3]}},
    "split, other order": {
        "dataframe_split": {"columns": NAMES[::-1], "data": [row[::-1] for row in ROWS]}
    },
    "split without columns": {"dataframe_split": {"data": ROWS}},
    "split without data": {"dataframe_split": {"columns": NAMES}},
    "split with an unknown member": {"dataframe_split": {**SPLIT, "x": 1}},
    "split, ragged": {"dataframe_split": {**SPLIT, "data": [[1, 2, 3]]}},
    "split, no rows": {"dataframe_split": {**SPLIT, "data": []}},
    "split, a list": {"dataframe_split": [SPLIT]},
    "split, more columns": {
        "dataframe_split": {"columns": [*NAMES, "x"], "data": [[*row, "y"] for row in ROWS]}
    },
    "split, a column twice": {
        "dataframe_split": {"columns": [*NAMES, "petal_width"], "data": [[*row, 1] for row in ROWS]}
    },
    "records": {"dataframe_records": RECORDS},
    "records, more members": {"dataframe_records": [{**each, "x": [1]} for each in RECORDS]},
    "records, one lacks a member": {"dataframe_records": [RECORDS[0], {"sepal_length": 1}]},
    "records, all lack a member": {"dataframe_records": [{"sepal_length": 1}]},
    "records, none": {"dataframe_records": []},
    "records, an object": {"dataframe_records": COLUMNS},
    "records, a number": {"dataframe_records": 1},
    "instances": {"instances": RECORDS},
    "instances as rows": {"instances": ROWS},
    "instances, none": {"instances": []},
    "inputs": {"inputs": COLUMNS},
    "inputs as records": {"inputs": RECORDS},
    "inputs as rows": {"inputs": ROWS},
    "inputs as numbers": {"inputs": [1, 2, 3, 4]},
    "inputs, other lengths": {"inputs": {**COLUMNS, "sepal_width": [1]}},
    "inputs, scalars": {"inputs": RECORDS[0]},
    "inputs, null": {"inputs": None},
    "a whole number": {"dataframe_records": with_value("sepal_width", 3)},
    "a number as text": {"dataframe_records": with_value("sepal_width", "3.5")},
    "text": {"dataframe_records": with_value("sepal_width", "wide")},
    "true": {"dataframe_records": with_value("sepal_width", True)},
    "null": {"dataframe_records": with_value("sepal_width", None)},
    "a list for a number": {"dataframe_records": with_value("sepal_width", [1])},
    "a huge number": {"dataframe_records": with_value("sepal_width", 10**400)},
    "a large integer": {"dataframe_records": with_value("sepal_width", 2**70)},
    "params": {"dataframe_split": SPLIT, "params": {"x": 1}},
    "params, empty": {"dataframe_split": SPLIT, "params": {}},
    "params, null": {"dataframe_split": SPLIT, "params": None},
    "params, a list": {"dataframe_split": SPLIT, "params": [1]},
    "an unknown member": {"dataframe_split": SPLIT, "x": 1},
    "signature_name": {"inputs": COLUMNS, "signature_name": "serving_default"},
    "two formats": {"dataframe_split": SPLIT, "inputs": COLUMNS},
    "no format": {"columns": NAMES, "data": ROWS},
    "an empty object": {},
    "a list": ROWS,
    "a number": 1,
    "nothing": b"",
    "not JSON": b'{"inputs": ',
    "NaN": json.dumps({"inputs": {**COLUMNS, "sepal_width": [float("nan")] * 3}}).encode(),
    "not UTF-8": b'{"inputs": "\xff"}',
    "a chat": {"messages": [{"role": "user", "content": "hello"}]},
}  # fmt: skip
JSON_COLUMNS = json.dumps({"inputs": COLUMNS}).encode()
OTHER_TYPES = {
    "CSV": (CSV.encode(), "text/csv"),
    "CSV with charset": (CSV.encode(), "text/csv; charset=utf-8"),
    "CSV, other columns": (b"a,b\n1,2", "text/csv"),
    "CSV, text for a number": (CSV.replace("5.1", "long").encode(), "text/csv"),
    "CSV, empty": (b"", "text/csv"),
    "CSV, only names": (",".join(NAMES).encode(), "text/csv"),
    "JSON with charset": (JSON_COLUMNS, "application/json;charset=UTF-8"),
    "JSON in Latin-1": (b"{}", "application/json; charset=latin-1"),
    "JSON with a parameter": (b"{}", "application/json; format=pandas-split"),
    "plain text": (b"1", "text/plain"),
    "no content type": (b"{}", ""),
    "JSON after a byte order mark": (b"\xef\xbb\xbf" + JSON_COLUMNS, "application/json"),
    "CSV after a byte order mark": (b"\xef\xbb\xbf" + CSV.encode(), "text/csv"),
    "CSV with quotes": (CSV.replace("5.1", '"5.1"').encode(), "text/csv"),
    "CSV, columns in another order": (
        "\n".join(",".join(line.split(",")[::-1]) for line in CSV.split("\n")).encode(), "text/csv"
    ),
    "CSV, a longer row": (f"{CSV}\n1,2,3,4,5,6".encode(), "text/csv"),
    "not Parquet": (b"PAR1", "application/vnd.apache.parquet"),
}  # fmt: skip
ARRAYS = {
    "inputs": {"inputs": ROWS},
    "instances": {"instances": ROWS},
    "inputs, one row": {"inputs": ROWS[:1]},
    "inputs, not a batch": {"inputs": ROWS[0]},
    "inputs, other width": {"inputs": [[1, 2]]},
    "inputs, ragged": {"inputs": [[1, 2, 3, 4], [1]]},
    "inputs, numbers as text": {"inputs": [["1", "2", "3", "4"]]},
    "inputs, text": {"inputs": [["a", "b", "c", "d"]]},
    "inputs, empty": {"inputs": []},
    "inputs, an object": {"inputs": COLUMNS},
    "split": {"dataframe_split": SPLIT},
    "records": {"dataframe_records": RECORDS},
    "instances as records": {"instances": RECORDS},
}
GRAPH = {
    "inputs": {"inputs": {"rows": ROWS}},
    "inputs, one row": {"inputs": {"rows": ROWS[:1]}},
    "inputs without the name": {"inputs": ROWS},
    "inputs, another name": {"inputs": {"columns": ROWS}},
    "inputs, other width": {"inputs": {"rows": [[1, 2]]}},
    "inputs, numbers as text": {"inputs": {"rows": [["1", "2", "3", "4"]]}},
    "inputs, empty": {"inputs": {"rows": []}},
    "instances": {"instances": [{"rows": row} for row in ROWS]},
    "records": {"dataframe_records": [{"rows": row} for row in ROWS]},
    "split": {"dataframe_split": {"columns": ["rows"], "data": [[row] for row in ROWS]}},
}
UNSIGNED = {
    "inputs": {"inputs": ROWS},
    "instances": {"instances": ROWS},
    "split without columns": {"dataframe_split": {"data": ROWS}},
    "other width": {"inputs": [[1, 2]]},
    "text": {"inputs": [["a", "b", "c", "d"]]},
    "params": {"inputs": ROWS, "params": {"x": 1}},
}
OF_ODD = {
    "a number": {"dataframe_records": [ODD]},
    "NaN": {"dataframe_records": [{**ODD, "text": "nan"}]},
    "a date": {"dataframe_records": [{**ODD, "text": "date"}]},
    "bytes": {"dataframe_records": [{**ODD, "text": "bytes"}]},
    "nothing": {"dataframe_records": [{**ODD, "text": "nothing"}]},
    "an object": {"dataframe_records": [{**ODD, "text": "object"}]},
    "an exception": {"dataframe_records": [{**ODD, "text": "raise"}]},
    "a number for text": {"dataframe_records": [{**ODD, "text": 1}]},
    "params": {"dataframe_records": [ODD], "params": {"scale": 2}},
    "params of another type": {"dataframe_records": [ODD], "params": {"scale": "x"}},
    "unknown params": {"dataframe_records": [ODD], "params": {"y": 2}},
}
OF_TYPED = {
    "all types": {"dataframe_records": [TYPED]},
    "all columns": {"dataframe_records": [{**TYPED, "maybe": 1.5}]},
    "an invalid date": {"dataframe_records": [{**TYPED, "when": "yesterday"}]},
    "bytes that are not base64": {"dataframe_records": [{**TYPED, "raw": "?"}]},
    "a float for an integer": {"dataframe_records": [{**TYPED, "small": 1.5}]},
    "an integer too large": {"dataframe_records": [{**TYPED, "small": 2**31}]},
    "a number for a boolean": {"dataframe_records": [{**TYPED, "flag": 2}]},
    "a missing integer": {"dataframe_records": [TYPED, {**TYPED, "small": None}]},
    "split": {"dataframe_split": {"columns": [*TYPED], "data": [[*TYPED.values()]] * 2}},
    "inputs": {"inputs": {name: [value] for name, value in TYPED.items()}},
    "instances": {"instances": [TYPED]},
}
REGRESSION = {name: IRIS[name] for name in ("split", "records")}
BY_MODEL = {
    "iris": IRIS,
    "regression": REGRESSION,
    "arrays": ARRAYS,
    "graph": GRAPH,
    "unsigned": UNSIGNED,
    "odd": OF_ODD,
    "typed": OF_TYPED,
}


def encoded(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


#: (model, name of the case, body, content type)
CASES = [
    *(
        (model, name, encoded(body), "application/json")
        for model, cases in BY_MODEL.items()
        for name, body in cases.items()
    ),
    *(("iris", name, body, content_type) for name, (body, content_type) in OTHER_TYPES.items()),
]

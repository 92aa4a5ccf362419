# SPDX-License-Identifier: Apache-2.0
"""Tables through a real server: rows of one request, types, descriptions, and refusals."""

import io
import json

import pandas as pd
import pytest

from servekit.testing import ServedModel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """\
import numpy as np
from servekit import InputError, Service

class Model(Service):
    def predict(self, batch):
        self.most = max(getattr(self, "most", 0), len(batch["age"]))
        names = [f"{name}!" for name in batch["name"]]
        most = [self.most] * len(names)
        return {"name": np.array(names, object), "older": batch["age"] + 1, "most": most}
"""
TOML = """\
service = "service:Model"
batching = {max_batch_size = 4}
[signature]
inputs = [{name = "name", dtype = "str", shape = []}, {name = "age", dtype = "float32", shape = []}]
outputs = [
    {name = "name", dtype = "str", shape = []},
    {name = "older", dtype = "float32", shape = []},
    {name = "most", dtype = "int64", shape = []},
]
"""
LIST = """\
from servekit import Service

class Model(Service):
    def predict(self, batch):
        return {"sum": batch["x"].sum(axis=1)}
"""
LIST_TOML = """\
service = "service:Model"
[signature]
inputs = [{name = "x", dtype = "float64", shape = [3]}]
outputs = [{name = "sum", dtype = "float64", shape = []}]
"""
BARE = """\
from servekit import Service

class Model(Service):
    def predict(self, batch):
        return batch
"""
SINGLE = BARE.replace(
    "        return batch",
    "        return batch\n    def postprocess(self, output):\n        return output",
)
CSV, PARQUET, JSON = "text/csv", "application/vnd.apache.parquet", "application/json"
PEOPLE = pd.DataFrame({"age": range(10), "name": [f"n{place}" for place in range(10)]})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = {
        "people": (SERVICE, TOML),
        "lists": (LIST, LIST_TOML),
        "bare": (BARE, 'service = "service:Model"\n'),
        "single": (SINGLE, LIST_TOML),
    }
    root = tmp_path_factory.mktemp("models")
    for name, (code, toml) in models.items():
        (root / name).mkdir()
        (root / name / "service.py").write_text(code)
        (root / name / "model.toml").write_text(toml)
    with ServedModel(*(root / name for name in models)) as found:
        yield found.wait_ready()


def ask(server, model, body, sent=CSV, accept=JSON):
    return server.post(f"/{model}/predict", body, sent, {"Accept": accept})


@pytest.mark.parametrize("accept", [CSV, PARQUET, JSON])
@pytest.mark.parametrize("sent", [CSV, PARQUET])
def test_a_data_frame_comes_back_as_one(server, sent, accept):
    body = PEOPLE.to_csv(index=False).encode() if sent == CSV else PEOPLE.to_parquet()
    answer = ask(server, "people", body, sent, accept)

    assert (answer.status, answer.content_type) == (200, accept)
    if accept == JSON:
        found = pd.DataFrame(answer.json()["prediction"])
    else:
        read = pd.read_csv if accept == CSV else pd.read_parquet
        found = read(io.BytesIO(answer.body))
    assert found["name"].tolist() == [f"n{place}!" for place in range(10)]
    assert found["older"].tolist() == list(range(1, 11))
    assert found["most"].max() <= 4  # as max_batch_size says


def test_columns_in_their_order_are_the_only_list(server):
    answer = ask(server, "lists", b"a,b,c\n1,2,3\n4,5,6.5\n")
    without_names = ask(server, "lists", b"1,2,3\n", "text/csv; header=absent")

    assert answer.json() == {"prediction": {"sum": [6.0, 15.5]}}
    assert without_names.json() == {"prediction": {"sum": [6.0]}}


@pytest.mark.parametrize(
    ("model", "body", "status", "message"),
    [
        ("people", b"name,age\na,x\n", 422, "age: row 1: 'x' is not float32"),
        ("people", b"name,age,extra\na,1,2\n", 422, "extra: unknown input"),
        ("people", b"name\na\n", 422, "age: missing"),
        ("people", b"name,age\na,1\nb\n", 400, "Expected 2 columns"),
        ("lists", b"a,b\n1,2\n", 422, "x: shape"),
        ("bare", b"a\n1\n", 415, "text/csv is not taken"),
        ("single", b"a,b,c\n1,2,3\n", 422, "one input in a request"),
    ],
)
def test_what_is_wrong_is_said(server, model, body, status, message):
    answer = ask(server, model, body)

    assert (answer.status, message in answer.body.decode()) == (status, True), answer.body


def test_json_and_tables_share_a_server(server):
    answer = ask(server, "people", json.dumps({"name": "a", "age": 1}).encode(), JSON)

    assert answer.json()["prediction"]["older"] == 2.0


def test_descriptions_name_tables_where_they_are_taken(server):
    paths = server.get("/openapi.json").json()["paths"]

    def taken(model):
        return set(paths[f"/{model}/predict"]["post"]["requestBody"]["content"])

    assert {CSV, PARQUET} <= taken("people")
    assert not {CSV, PARQUET} & taken("bare")
    assert {CSV, PARQUET} <= set(paths["/people/predict"]["post"]["responses"]["200"]["content"])

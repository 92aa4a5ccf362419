# SPDX-License-Identifier: Apache-2.0
"""MLflow models behind a running server, as clients of MLflow and of servekit use them."""

import json
import math
import threading
from http.client import HTTPConnection
from importlib.metadata import version

import pytest

from servekit import serve
from servekit.cli import main
from servekit.testing import ServedModel
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
JSON = "application/json"
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
FLOWERS = [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]]
SPLIT = {"columns": NAMES, "data": FLOWERS}
RECORDS = [dict(zip(NAMES, row, strict=True)) for row in FLOWERS]
COLUMNS = {name: [row[name] for row in RECORDS] for name in NAMES}
CSV = "\n".join([",".join(NAMES), *(",".join(map(str, row)) for row in FLOWERS)])


@pytest.fixture(scope="module")
def iris(models):
    token = models / "token"
    token.write_text("secret-token\n")
    with ServedModel(models / "iris", max_body="4MiB", predict_token_file=token) as served:
        yield served.wait_ready()


@pytest.fixture(scope="module")
def odd(models):
    with ServedModel(models / "odd") as served:
        yield served.wait_ready()


@pytest.fixture(scope="module")
def several(models):
    names = ("arrays", "graph", "regression", "typed", "unsigned")
    with serve({name: str(models / name) for name in names}, block=False, port=0) as server:
        yield server


def ask(url, body, path="/invocations", content_type=JSON):
    """Return status and JSON; what is not bytes is sent as JSON."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Authorization": "Bearer secret-token"}
    fields |= {"Content-Type": content_type} if content_type else {}
    connection = HTTPConnection(url.partition("://")[2], timeout=60)
    try:
        connection.request("POST", path, encoded, fields)
        response = connection.getresponse()
        content = response.read()
    finally:
        connection.close()
    is_json = response.headers["Content-Type"] in (JSON, "application/problem+json")
    return response.status, json.loads(content) if is_json else content.decode()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param({"dataframe_split": SPLIT}, JSON, id="split"),
        pytest.param({"dataframe_split": {**SPLIT, "index": [0, 1]}}, JSON, id="split with index"),
        pytest.param({"dataframe_records": RECORDS}, JSON, id="records"),
        pytest.param({"instances": RECORDS}, JSON, id="instances"),
        pytest.param({"inputs": COLUMNS}, JSON, id="inputs"),
        pytest.param({"inputs": COLUMNS}, f"{JSON}; charset=UTF-8", id="charset"),
        pytest.param({"inputs": COLUMNS, "params": {}}, JSON, id="empty params"),
        pytest.param(
            {"dataframe_records": [{**row, "more": "x"} for row in RECORDS]},
            JSON,
            id="more columns",
        ),
        pytest.param(
            {"inputs": {name: [*map(str, values)] for name, values in COLUMNS.items()}},
            JSON,
            id="numbers as text, which are not plain",
        ),
        pytest.param(CSV.encode(), "text/csv", id="CSV"),
        pytest.param(b"\xef\xbb\xbf" + json.dumps({"inputs": COLUMNS}).encode(), JSON, id="mark"),
    ],
)
def test_formats(iris, body, content_type):
    assert ask(iris.url, body, content_type=content_type) == (200, {"predictions": [0, 2]})


def test_parquet(iris):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    scoring = pytest.importorskip("mlflow.pyfunc.scoring_server")
    kind = getattr(scoring, "CONTENT_TYPE_PARQUET", None)
    if kind is None:
        pytest.skip("this MLflow does not read Parquet")
    body = pandas.DataFrame(COLUMNS).to_parquet()
    broken = ask(iris.url, b"PAR1", content_type=kind)

    assert ask(iris.url, body, content_type=kind) == (200, {"predictions": [0, 2]})
    assert (broken[0], broken[1]["error_code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code", "text"),
    [
        pytest.param(b"[1", JSON, 400, "BAD_REQUEST", "valid JSON", id="not JSON"),
        pytest.param([1], JSON, 400, "BAD_REQUEST", "Received a list", id="a list"),
        pytest.param({}, JSON, 400, "BAD_REQUEST", "exactly one", id="no format"),
        pytest.param(
            {"inputs": COLUMNS, "instances": RECORDS}, JSON, 400, "BAD_REQUEST", "exactly one",
            id="two formats",
        ),
        pytest.param(
            {"dataframe_split": {"columns": ["x"], "data": [[1]]}}, JSON, 400,
            "INVALID_PARAMETER_VALUE", "missing inputs", id="missing columns",
        ),
        pytest.param(
            {"dataframe_records": [{**RECORDS[0], "sepal_width": "wide"}]}, JSON, 400,
            "BAD_REQUEST", "sepal_width", id="text for a number",
        ),
        pytest.param(
            {"dataframe_split": SPLIT, "params": {"k": 1}}, JSON, 200, None, None,
            id="parameters that the model does not have",
        ),
        pytest.param(b"a,b\n1,2", "text/csv", 400, "INVALID_PARAMETER_VALUE", "missing", id="CSV"),
        pytest.param(b"\xff", JSON, 400, "BAD_REQUEST", "UTF-8", id="not UTF-8"),
        pytest.param({"inputs": 1}, "", 415, "BAD_REQUEST", "Content-Type", id="no content type"),
    ],
)  # fmt: skip
def test_errors(iris, body, content_type, status, code, text):
    found, said = ask(iris.url, body, content_type=content_type)

    assert (found, said.get("error_code")) == (status, code)
    assert text is None or text in said["message"]


@pytest.mark.parametrize("content_type", ["application/x-npy", f"{JSON}; charset=latin-1"])
def test_other_content_types_are_refused_as_by_mlflow(iris, content_type):
    status, text = ask(iris.url, {"inputs": COLUMNS}, content_type=content_type)

    assert status == 415
    assert "only support" in text


def test_errors_of_the_server_have_the_shape_of_mlflow(iris):
    without_token = iris.post("/invocations", b"{}")
    wrong_method = iris.get("/invocations")

    assert without_token.status == 401
    assert json.loads(without_token.body)["error_code"] == "UNAUTHENTICATED"
    assert (wrong_method.status, json.loads(wrong_method.body)["error_code"]) == (
        405,
        "BAD_REQUEST",
    )


@pytest.mark.parametrize("path", ["/ping", "/health"])
def test_health(iris, path):
    response = iris.get(path)

    assert (response.status, response.body) == (200, b"\n")


def test_the_version_is_that_of_mlflow(iris):
    assert iris.get("/version").body.decode() == version("mlflow-skinny")


def test_health_is_never_claimed(models):
    with ServedModel(models / "iris") as served:
        served.wait_ready()
        with served.paused_worker():
            served.kill_worker()
            found = {path: served.get(path).status for path in ("/ping", "/health")}

    assert set(found.values()) <= {200, 503}  # the next worker may be there already
    assert len(set(found.values())) == 1 or found["/ping"] == 503


def test_a_model_without_workers_leaves_a_server_healthy(models):
    asleep = {"set": "regression.replicas=0"}
    with ServedModel(models / "iris", models / "regression", **asleep) as served:
        served.wait_ready()
        found = [served.get(path) for path in ("/ping", "/health")]
        several = served.post("/invocations", b'{"inputs": []}')

    assert [(each.status, each.body) for each in found] == [(200, b"\n")] * 2
    assert several.status == 404
    assert "/iris/invocations, /regression/invocations" in several.json()["message"]


def test_rows_on_the_own_route(iris):
    fields = {"Authorization": "Bearer secret-token"}
    response = iris.post("/iris/predict", json.dumps(RECORDS[1]).encode(), headers=fields)
    refused = iris.post("/iris/predict", b'{"sepal_length": "x"}', headers=fields)

    assert json.loads(response.body) == {"prediction": 2}
    assert refused.status == 422
    assert "petal_width" in refused.body.decode()


def test_whole_requests_on_the_own_route(iris):
    answer = ask(iris.url, {"dataframe_split": SPLIT}, "/iris/invocations")

    assert answer == (200, {"predictions": [0, 2]})


def test_the_model_is_described(iris):
    document = json.loads(iris.get("/openapi.json").body)
    body = document["paths"]["/invocations"]["post"]["requestBody"]["content"][JSON]
    formats = {each["required"][0]: each for each in body["schema"]["anyOf"]}

    assert set(formats) == {"dataframe_split", "dataframe_records", "instances", "inputs"}
    records = formats["dataframe_records"]["properties"]["dataframe_records"]
    assert records["items"]["required"] == NAMES


def test_many_clients_get_their_own_rows(iris):
    wrong = []

    def send(seed):
        for turn in range(20):
            rows = [FLOWERS[(seed + turn + at) % 2] for at in range(1 + seed % 3)]
            expected = [2 * ((seed + turn + at) % 2) for at in range(len(rows))]
            answer = ask(iris.url, {"dataframe_split": {"columns": NAMES, "data": rows}})
            wrong.extend([answer] if answer != (200, {"predictions": expected}) else [])

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


# ------------------------------------------------------------ a model of one's own


def rows_of(*texts, number=2.0):
    return {"dataframe_records": [{"number": number, "text": text} for text in texts]}


@pytest.mark.parametrize(
    ("body", "predictions"),
    [
        pytest.param(rows_of("a"), [2.0], id="a row"),
        pytest.param({**rows_of("a"), "params": {"scale": 3}}, [6.0], id="parameters"),
        pytest.param(rows_of("date"), ["2026-11-22"], id="a date"),
        pytest.param(rows_of("bytes"), ["AAH/\n"], id="bytes"),
        pytest.param(rows_of("nothing", "a"), [None, 2.0], id="nothing"),
        pytest.param(rows_of("rows", "rows"), [2, 2], id="rows of one request only"),
    ],
)
def test_what_a_model_may_return(odd, body, predictions):
    assert ask(odd.url, body) == (200, {"predictions": predictions})


def test_nan_is_written_as_by_mlflow(odd):
    response = odd.post("/invocations", json.dumps(rows_of("nan")).encode())

    assert b"NaN" in response.body
    assert math.isnan(json.loads(response.body)["predictions"][0])


def test_a_model_that_fails_does_not_show_its_traceback(odd):
    status, said = ask(odd.url, rows_of("raise"))

    assert (status, said["error_code"]) == (400, "BAD_REQUEST")
    assert "stack_trace" not in said
    assert "secret" not in said["message"]
    wait_until(lambda: "ValueError: as asked, with a secret" in odd.log.text, "it is logged")


def test_predictions_that_json_cannot_hold(odd):
    assert ask(odd.url, rows_of("object"))[0] == 500


def test_wrong_parameters(odd):
    status, said = ask(odd.url, {**rows_of("a"), "params": {"scale": "x"}})

    assert (status, said["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def test_a_row_that_the_model_refuses_on_the_own_route(odd):
    good = odd.predict({"number": 4, "text": "a"})
    bad = odd.predict({"number": 4, "text": "raise"})

    assert (good.status, json.loads(good.body)) == (200, {"prediction": 4.0})
    assert bad.status == 422
    assert "ValueError" in bad.body.decode()


# ------------------------------------------------------------ several models


def test_which_of_several_models_is_not_guessed(several):
    status, said = ask(several.url, {"inputs": FLOWERS})

    assert (status, said["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
    assert "/arrays/invocations, /graph/invocations" in said["message"]


@pytest.mark.parametrize("name", ["arrays", "unsigned"])
def test_arrays(several, name):
    path = f"/{name}/invocations"

    assert ask(several.url, {"inputs": FLOWERS}, path) == (200, {"predictions": [0, 2]})
    assert ask(several.url, {"instances": FLOWERS}, path) == (200, {"predictions": [0, 2]})


def test_a_graph(several):
    path, rows = "/graph/invocations", [[1, 0, 0, 0], [0, 1, 0, 1]]
    status, said = ask(several.url, {"inputs": {"rows": rows}}, path)
    own = ask(several.url, {"rows": [0, 1, 0, 1]}, "/graph/predict")

    assert (status, said) == (200, {"predictions": {"sums": [[0, 1], [8, 10]]}})
    assert own == (200, {"prediction": {"sums": [8, 10]}})


def test_an_array_on_the_own_route(several):
    for name in ("arrays", "unsigned"):
        assert ask(several.url, FLOWERS[1], f"/{name}/predict") == (200, {"prediction": 2})


def test_several_outputs(several):
    body = {"dataframe_split": SPLIT}
    status, said = ask(several.url, body, "/regression/invocations")

    assert status == 200
    assert said["predictions"] == [pytest.approx(row[2:]) for row in FLOWERS]


def test_columns_that_are_not_plain(several):
    row = {"flag": True, "small": 1, "large": 2**40, "single": 0.5, "text": "a",
           "when": "2026-11-22T10:00:00", "raw": "AAH/"}  # fmt: skip
    status, said = ask(several.url, {"dataframe_records": [row]}, "/typed/invocations")
    own = ask(several.url, row, "/typed/predict")

    assert status == 200
    assert said["predictions"][0] | {"maybe": None} == row | {"maybe": None, "raw": "AAH/\n"}
    assert own == (200, {"prediction": said["predictions"][0]})


def test_an_mlflow_model_becomes_an_archive_that_a_server_loads(models, tmp_path):
    arguments = ["migrate", str(models / "iris"), "-o", str(tmp_path / "new.mar")]
    assert main([*arguments, "--name", "iris"]) == 0

    with ServedModel(tmp_path / "new.mar") as served:
        answer = ask(served.wait_ready().url, {"dataframe_split": SPLIT})

    assert answer == (200, {"predictions": [0, 2]})

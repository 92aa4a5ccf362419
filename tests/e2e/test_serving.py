# SPDX-License-Identifier: Apache-2.0
"""Archives and directories behind one server: what clients send and what they get."""

import io
import json
from pathlib import Path

import msgpack
import numpy as np
import pytest

MODELS = Path(__file__).parent / "models"
pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    import subprocess

    from .conftest import BIN

    archive = tmp_path_factory.mktemp("archive") / "points.mar"
    subprocess.run(
        [BIN / "servekit-archive", "build", MODELS / "points", "-o", archive], check=True
    )
    return serve("--models", archive, MODELS / "grid", f"other={MODELS / 'grid'}", "--max-body=64K")


GRID = [[1, 2, 3], [4, 5, 6]]


def npy(values, dtype):
    stream = io.BytesIO()
    np.save(stream, np.array(values, dtype))
    return stream.getvalue()


def multipart(name, text):
    part = f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n--b--\r\n'
    return part.encode()


TAKEN = {
    "typed JSON": ("/points/predict", b'{"x": 1, "y": 2}', "application/json", 3.0),
    "typed msgpack": ("/points/predict", msgpack.packb({"x": 2}), "application/msgpack", 2.0),
    "JSON array": ("/grid/predict", json.dumps({"grid": GRID}).encode(), "application/json", None),
    "npy": ("/grid/predict", npy(GRID, "float32"), "application/x-npy", None),
    "raw bytes": (
        "/grid/predict", np.array(GRID, "float32").tobytes(), "application/octet-stream", None,
    ),
    "form": (
        "/grid/predict", multipart("grid", json.dumps(GRID)),
        "multipart/form-data; boundary=b", None,
    ),
    "another name": (
        "/other/predict", json.dumps({"grid": GRID}).encode(), "application/json", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "content_type", "expected"), TAKEN.values(), ids=TAKEN)
def test_prediction(server, path, body, content_type, expected):
    status, headers, answer = server.post(path, body, content_type)

    assert (status, headers["Content-Type"]) == (200, "application/json"), answer
    expected = {"rows": [6.0, 15.0], "batch": 1} if expected is None else expected
    assert json.loads(answer) == {"prediction": expected}


def test_accept_msgpack(server):
    _, headers, answer = server.post("/points/predict", b'{"x": 1}', Accept="application/msgpack")

    assert headers["Content-Type"] == "application/msgpack"
    assert msgpack.unpackb(answer) == {"prediction": 1.0}


REFUSED = {
    "broken JSON": ("/points/predict", b'{"x": ', "application/json", 400, ""),
    "empty body": ("/points/predict", b"", "application/json", 400, "body"),
    "wrong type": ("/points/predict", b'{"x": "one"}', "application/json", 422, "x"),
    "missing field": ("/points/predict", b'{"y": 1}', "application/json", 422, "x"),
    "refused by the service": ("/points/predict", b'{"x": 13}', "application/json", 422, "x"),
    "wrong dtype": (
        "/grid/predict", b'{"grid": [["a", 2, 3], [4, 5, 6]]}', "application/json", 422, "grid",
    ),
    "wrong shape": ("/grid/predict", b'{"grid": [[1, 2, 3]]}', "application/json", 422, "grid"),
    "unknown input": ("/grid/predict", b'{"gird": [[1]]}', "application/json", 422, "gird"),
    "unknown model": ("/nope/predict", b"{}", "application/json", 404, "nope"),
    "wrong content type": ("/points/predict", b"x=1", "application/x-www-form-urlencoded", 415, ""),
    "body over the limit": ("/points/predict", b" " * 70_000, "application/json", 413, "body"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "kind", "status", "named"), REFUSED.values(), ids=REFUSED)
def test_bad_input_gets_its_status_and_the_next_request_is_answered(
    server, path, body, kind, status, named
):
    got, headers, answer = server.post(path, body, kind)
    problem = json.loads(answer)

    assert (got, headers["Content-Type"]) == (status, "application/problem+json"), answer
    assert problem["status"] == status
    assert problem["request_id"] == headers["X-Request-Id"]
    assert named in problem["detail"]
    assert server.post("/points/predict", b'{"x": 1}')[0] == 200


def test_wrong_method_names_the_right_one(server):
    import urllib.request

    request = urllib.request.Request(server.url + "/points/predict", method="PUT", data=b"{}")
    status, headers, _ = server.send(request)

    assert (status, headers["Allow"]) == (405, "POST")


def test_health(server):
    assert server.get("/ping") == (200, b'{"health":"healthy!"}\n')


def test_swagger_description_is_what_mxnet_clients_read(server):
    description = json.loads(server.get("/api-description")[1])["description"]

    assert description["swagger"] == "2.0"
    assert description["paths"]["/grid/predict"]["post"]["operationId"] == "grid_predict"


def test_openapi_knows_the_types_of_the_annotations(server):
    text = server.get("/openapi.json")[1].decode()

    assert json.loads(text)["openapi"].startswith("3.1")
    assert "Point" in text


def test_docs_page_needs_no_network(server):
    status, page = server.get("/docs")

    assert status == 200
    assert b"https://" not in page


def test_metrics_count_predictions(server):
    server.post("/points/predict", b'{"x": 1}')
    text = server.get("/metrics")[1].decode()

    assert 'servekit_requests_total{model="points",status="200",version="2.0"}' in text
    assert 'servekit_request_duration_seconds_count{model="points",version="2.0"}' in text


def test_every_status_of_the_api_carries_no_internals(server):
    for path, body, kind, *_ in REFUSED.values():
        answer = server.post(path, body, kind)[2].decode()
        assert not any(word in answer for word in ("Traceback", 'File "', str(MODELS), "0x"))

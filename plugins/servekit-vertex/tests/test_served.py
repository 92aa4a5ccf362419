# SPDX-License-Identifier: Apache-2.0
"""The two routes of a container of Vertex AI, in front of real models."""

import json
import os
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic

import pytest

from servekit.testing import ServedModel
from tests.processes import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
SERVICE = """
import time
from servekit import InputError, Service

class Odd(Service):
    def predict(self, batch):
        return [self.answer(value) for value in batch]

    def answer(self, value):
        if value == "refuse":
            return InputError("no")
        if value == "fail":
            raise ValueError("as asked")
        if value == "memory":
            raise MemoryError
        has_image = isinstance(value, dict) and "image" in value
        return {"hex": value["image"].hex()} if has_image else value

class Words(Service):
    def stream(self, text):
        for word in text.split():
            if word == "pause":
                time.sleep(5)
            yield word
"""
PREDICT = "/v1/endpoints/1/deployedModels/2:predict"
HEALTH = "/v1/endpoints/1/deployedModels/2"
VERTEX = {"AIP_PREDICT_ROUTE": PREDICT, "AIP_HEALTH_ROUTE": HEALTH}
WAIT_S = 180.0


def write_model(directory, kind="Odd"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "service.py").write_text(SERVICE)
    (directory / "model.toml").write_text(f'name = "{kind.lower()}"\nservice = "service:{kind}"\n')
    return directory


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = write_model(tmp_path_factory.mktemp("vertex") / "odd")
    with ServedModel(directory, environment=os.environ | VERTEX, large_body="64KiB") as model:
        yield model.wait_ready()


def post(served, body, content_type="application/json", **headers):
    """Return status and JSON; what is not bytes is sent as JSON."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    response = served.post(PREDICT, encoded, content_type, fields)
    return response.status, json.loads(response.body)


def test_health(served):
    response = served.get(HEALTH)

    assert (response.status, response.body) == (200, b"")
    assert served.get("/ping").status == 200


@pytest.mark.parametrize(
    ("instances", "predictions"),
    [
        pytest.param([1, "a", None, [2.5], {"x": 1}], [1, "a", None, [2.5], {"x": 1}], id="values"),
        pytest.param([], [], id="none"),
        pytest.param([{"image": {"b64": "AQI="}}], [{"hex": "0102"}], id="bytes"),
        pytest.param([[0] * 100_000], [[0] * 100_000], id="a large body and answer"),
        pytest.param(list(range(200)), list(range(200)), id="more than a batch"),
    ],
)
def test_predictions(served, instances, predictions):
    assert post(served, {"instances": instances}) == (200, {"predictions": predictions})


@pytest.mark.parametrize("parameters", [None, {}, {"b": 2, "a": 0}])
def test_parameters_are_members_that_instances_lack(served, parameters):
    body = {"instances": [{"a": 1}, {"c": 3}], "parameters": parameters}
    found = post(served, body)[1]["predictions"]

    assert found == [(parameters or {}) | each for each in body["instances"]]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        pytest.param(b"[1, 2]", [1, 2], id="a list"),
        pytest.param(b'{"prompt": "a"}', {"prompt": "a"}, id="an object"),
        pytest.param(b"[%b0]" % (b"0," * 100_000), [0] * 100_001, id="large"),
    ],
)
def test_raw_predictions_of_json_are_answered_bare(served, body, answer):
    assert post(served, body) == (200, answer)


def test_raw_predictions_of_other_types_are_answered_in_kind(served):
    response = served.post(PREDICT, b"\0\1", "application/octet-stream")

    assert (response.status, response.content_type, response.body) == (
        200, "application/octet-stream", b"\0\1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "content_type", "status", "text"),
    [
        pytest.param(b"[1", "application/json", 400, "body", id="not JSON"),
        pytest.param(b'{"instances": 1}', "application/json", 400, "instances", id="not a list"),
        pytest.param({"instances": [1, "refuse"]}, "application/json", 400, "no", id="refused"),
        pytest.param({"instances": ["fail"]}, "application/json", 500, "failed", id="fails"),
        pytest.param({"instances": ["memory"]}, "application/json", 503, "memory", id="memory"),
        pytest.param(b"1,2", "text/csv", 400, "text/csv is not taken", id="media type"),
        pytest.param(
            {"instances": [1], "parameters": {"a": 1}}, "application/json", 400, "not an object",
            id="parameters of a number",
        ),
        pytest.param(
            {"instances": [{}], "parameters": [1]}, "application/json", 400, "parameters",
            id="parameters are a list",
        ),
    ],
)  # fmt: skip
def test_errors_have_statuses_that_vertex_knows(served, body, content_type, status, text):
    found, told = post(served, body, content_type)

    assert (found, sorted(told)) == (status, ["error", "request_id"])
    assert text in told["error"]


def test_methods(served):
    assert served.get(PREDICT).status == 405
    assert served.post(HEALTH, b"").status == 405


def test_streams(tmp_path):
    directory = write_model(tmp_path / "words", "Words")
    with ServedModel(directory, environment=os.environ | VERTEX) as model:
        model.wait_ready()
        events = model.post(PREDICT, b'"one two"', headers={"Accept": "text/event-stream"})
        whole = model.post(PREDICT, b'{"instances": ["one two", "a", "b c d"]}')
        none = model.post(PREDICT, b'{"instances": []}')
        slow = model.post(PREDICT, b'"one pause"', headers={"Accept": "text/event-stream"})

    assert (events.content_type, events.body) == (
        "text/event-stream", b'data: "one"\n\ndata: "two"\n\n',
    )  # fmt: skip
    assert whole.json() == {"predictions": [["one", "two"], ["a"], ["b", "c", "d"]]}
    assert none.json() == {"predictions": []}
    assert slow.body.replace(b": \n\n", b"") == b'data: "one"\n\ndata: "pause"\n\n'
    assert b'"one"\n\n: \n\n' in slow.body


def test_a_server_that_vertex_has_not_started_is_unchanged(tmp_path):
    with ServedModel(write_model(tmp_path / "odd")) as model:
        model.wait_ready()

        assert model.post(PREDICT, b"1").status == 404


def test_the_command_serves_what_is_in_the_storage_until_sigterm(tmp_path):
    write_model(tmp_path / "artifacts")
    port = free_port()
    variables = {"AIP_HTTP_PORT": str(port), "AIP_STORAGE_URI": str(tmp_path / "artifacts")}
    command = [Path(sys.executable).with_name("servekit"), "vertex"]
    process = subprocess.Popen(command, env=os.environ | VERTEX | variables, cwd=tmp_path)
    try:
        wait_healthy(process, port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()


def wait_healthy(process, port):
    deadline, pause = monotonic() + WAIT_S, threading.Event()
    while not is_healthy(port):
        assert process.poll() is None
        assert monotonic() < deadline
        pause.wait(0.02)


def is_healthy(port):
    connection = HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", HEALTH)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()

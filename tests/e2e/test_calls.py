# SPDX-License-Identifier: Apache-2.0
"""A service calls another model of the same server: through its queue, as its own request."""

import json
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.waiting import wait_for_value, wait_until

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
MODELS = Path(__file__).parent / "models"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module", params=[1, 2])
def server(serve, request):
    return serve(MODELS / "calling", MODELS / "called", "--front-ends", request.param)


def ask(server, value, **headers):
    body = json.dumps(value if isinstance(value, dict) else {"value": value}).encode()
    status, answered, content = server.post("/calling/predict", body, **headers)
    return status, answered, json.loads(content)


def test_a_call_inherits_id_trace_headers_and_deadline(server):
    headers = {"X_Request_Id": "r7", "traceparent": TRACE, "X_User": "ada"}
    status, _, answer = ask(server, "x", **headers, X_Request_Timeout_Ms="4500")
    told = answer["prediction"]

    assert (status, told["value"], told["id"]) == (200, "x", "r7")
    assert (told["trace"], told["user"]) == (TRACE, "ada")
    assert 0 < told["left_s"] <= 4.5  # without it, it has 5 s


def test_calls_of_one_request_are_one_batch(server):
    _, _, answer = ask(server, {"values": list(range(8))})

    assert [each["value"] for each in answer["prediction"]] == list(range(8))
    assert max(each["batch"] for each in answer["prediction"]) > 1


def test_calls_of_two_requests_are_batched_with_one_another_and_with_clients(server):
    answers = []

    def call(path, body):
        answers.append(json.loads(server.post(path, json.dumps(body).encode())[2])["prediction"])

    threads = [
        threading.Thread(target=call, args=each)
        for each in [("/calling/predict", {"values": [1] * 3})] * 2 + [("/called/predict", 1)] * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert len(answers) == 4


def test_a_stage_of_a_pipeline_can_call_too(server):
    _, _, answer = ask(server, "again")
    first, second = answer["prediction"]

    assert (first["value"], second["value"], first["id"]) == ("again", "second", second["id"])


@pytest.mark.parametrize(
    ("value", "status", "detail"),
    [
        pytest.param({"value": "refuse"}, 422, "value: is refused", id="refused"),
        pytest.param({"value": "fail"}, 500, "Prediction failed", id="failed"),
        pytest.param(
            {"value": 1, "model": "squares"}, 404, "no model is called squares", id="none"
        ),
        pytest.param({"value": 1, "model": "x"}, 403, "does not name it", id="not named"),
    ],
)
def test_an_error_of_the_called_model_is_an_exception(server, value, status, detail):
    _, _, answer = ask(server, {**value, "catch": True})

    assert answer["prediction"]["status"] == status
    assert detail in answer["prediction"]["detail"]


@pytest.mark.parametrize(
    ("value", "expected"), [("refuse", 422), ("fail", 500)], ids=["InputError", "not caught"]
)
def test_what_the_client_gets(server, value, expected):
    status, _, _ = ask(server, value)

    assert status == expected


def test_a_client_that_leaves_takes_its_calls_with_it(server):
    wait_for_value(lambda: metric(server, "running"), 0, "tasks that run still")
    body = b'{"value": "hang"}'
    head = b"POST /calling/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_S) as client:
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: metric(server, "running") > 0, "the call runs")
    wait_for_value(lambda: metric(server, "running"), 0, "tasks that run", 4.0)

    assert ask(server, "x")[0] == 200


def metric(server, name: str) -> float:
    """Return how many tasks the called model has."""
    lines = server.get("/metrics")[1].decode().splitlines()
    found = [line for line in lines if 'model="called"' in line and name in line.partition("{")[0]]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_a_deadline_of_the_client_ends_the_call(server):
    status, _, _ = ask(server, "hang", X_Request_Timeout_Ms="300")

    assert status == 504


@pytest.mark.slow
def test_calls_go_on_after_the_called_worker_dies_and_after_a_reload(serve):
    server = serve(MODELS / "calling", MODELS / "called")
    assert ask(server, "x")[0] == 200
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("reloading")
    statuses = [ask(server, "x")[0] for _ in range(50)]
    for pid in server.workers():
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"called" in command:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: ask(server, "x")[0] == 200, "the called model is back")

    assert statuses == [200] * 50


def test_models_that_call_one_another_are_refused(serve, tmp_path):
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "service.py").write_text(
            "from servekit import Service\nclass S(Service):\n    def predict(self, b): return b\n"
        )
        (tmp_path / name / "model.toml").write_text(
            f'name = "{name}"\nservice = "service:S"\ncalls = ["{other}"]\n'
        )
    server = serve(tmp_path / "a", tmp_path / "b")
    statuses = {server.post(f"/{name}/predict", b"1")[0] for name in "ab"}

    server.wait_for("is a cycle")
    assert statuses == {200, 503}


def test_check_runs_examples_with_the_stand_in(run, tmp_path):
    shutil.copy(MODELS / "calling" / "service.py", tmp_path)
    (tmp_path / "model.toml").write_text(
        'name = "one"\nservice = "service:Calling"\ncalls = ["called"]\n[[examples]]\n'
        'input = { value = "x" }\noutput = { value = "x", by = "stand-in" }\n'
    )
    done = run("servekit", "check", tmp_path)

    assert "ok" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_says_that_examples_of_a_pipeline_need_the_called_models(run):
    done = run("servekit", "check", MODELS / "calling")

    assert "examples not run: its services call called, squares" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr

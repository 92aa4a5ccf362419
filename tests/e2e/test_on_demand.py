# SPDX-License-Identifier: Apache-2.0
"""Models that are loaded when a request comes, and unloaded when none does."""

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import BIN, WAIT_S

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """\
import os, time
from servekit import Service, endpoint

class Model(Service):
    request_headers = ("X-User",)

    def load(self, context):
        self.context = context
        time.sleep(context.options.get("load_s", 0))
        if context.options.get("fails"):
            raise RuntimeError("no weights")

    @endpoint()
    def whisper(self, batch):
        return ["psst"] * len(batch)

    def predict(self, batch):
        time.sleep(0.2 if "slow" in batch else 0)
        return [
            {"user": request.headers.get("x-user"), "pid": os.getpid()}
            for request in self.context.requests
        ]
"""


@pytest.fixture
def serve_toml(serve, tmp_path):
    """Serve models named by the tables of a ``servekit.toml``."""

    def start(tables, *arguments):
        directory = tmp_path / "model"
        directory.mkdir()
        (directory / "model.toml").write_text('service = "service:Model"\n')
        (directory / "service.py").write_text(SERVICE)
        settings = tmp_path / "servekit.toml"
        settings.write_text(tables.replace("MODEL", str(directory)))
        return serve("--config", settings, *arguments)

    return start


def predict(server, model="m", body=b'"x"', **headers):
    status, _, content = server.post(f"/{model}/predict", body, **headers)
    found = json.loads(content)
    return status, found.get("prediction", found)


def state_of(server, model="m"):
    status, content = server.get(f"/{model}/ping")
    return status, json.loads(content)


ON_DEMAND = '[models.m]\npath = "MODEL"\nreplicas = 0\n'
SLEEPY = '[models.m]\npath = "MODEL"\nidle_s = 1\n'


def test_the_first_request_loads_the_model(serve_toml):
    server = serve_toml(ON_DEMAND)
    assert server.workers() == []
    assert (server.get("/ping")[0], state_of(server)[0]) == (200, 200)

    status, answer = predict(server, X_User="anna")

    assert (status, answer["user"]) == (200, "anna")
    assert server.workers() == [answer["pid"]]


def test_requests_that_come_together_load_it_once(serve_toml):
    server = serve_toml(ON_DEMAND + "options = { load_s = 0.5 }\n", "--front-ends", 2)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: predict(server), range(8)))

    assert {status for status, _ in answers} == {200}
    assert len({answer["pid"] for _, answer in answers}) == 1


def test_a_model_is_healthy_while_it_sleeps_and_while_it_loads(serve_toml):
    server = serve_toml(ON_DEMAND + "options = { load_s = 1 }\n")
    waiting = threading.Thread(target=predict, args=[server])
    waiting.start()
    server.wait_for("is loading: a request arrived")

    assert (server.get("/ping")[0], state_of(server)[0]) == (200, 200)
    waiting.join()
    assert server.get("/ping")[0] == 200


def test_a_request_for_an_endpoint_loads_the_model_too(serve_toml):
    server = serve_toml(ON_DEMAND)
    before, headers, _ = server.post("/m/whisper", b'"x"')
    unknown = server.post("/n/whisper", b'"x"')[0]
    wait_until(lambda: server.post("/m/whisper", b'"x"')[0] == 200, "the model has been loaded")

    assert (before, headers["Retry-After"], unknown) == (503, "1", 404)
    assert server.post("/m/shout", b'"x"')[0] == 404


def test_a_model_without_requests_is_unloaded_and_loaded_again(serve_toml):
    server = serve_toml(SLEEPY)
    _, first = predict(server)
    server.wait_for("unloaded after 1 s without a request")
    wait_until(lambda: not server.workers(), "the worker has left")
    shown, printed = models_of(server), command(server, "models")
    status, second = predict(server)

    assert [status, first["pid"] == second["pid"]] == [200, False]
    assert (shown["is_asleep"], shown["is_ready"], shown["replicas"]) == (True, False, [])
    assert "asleep" in printed
    with asked_all_the_time(server):
        assert models_of(server)["is_asleep"] is False


@contextmanager
def asked_all_the_time(server):
    """Let the model have no idle second, however long a command takes."""
    ends = threading.Event()

    def ask():
        while not ends.wait(0.05):
            predict(server)

    thread = threading.Thread(target=ask)
    predict(server)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def models_of(server):
    return json.loads(command(server, "models", "--json"))[0]


def command(server, *arguments):
    found = subprocess.run(
        [BIN / "servekit", *arguments, "--pid", str(server.process.pid)],
        text=True, capture_output=True, check=True, timeout=WAIT_S,
    )  # fmt: skip
    return found.stdout


def test_no_request_is_lost_while_a_model_falls_asleep_and_wakes(serve_toml):
    server = serve_toml(SLEEPY)
    pause = threading.Event()

    answers = []
    for wait_s in (1.0, 1.9, 2.0, 2.1):
        pause.wait(wait_s)
        answers += [predict(server)[0], predict(server, body=b'"slow"')[0]]

    assert set(answers) == {200}


def test_a_request_waits_no_longer_than_it_may(serve_toml):
    server = serve_toml(ON_DEMAND + "options = { load_s = 5 }\n", "--wake-timeout", 0.5)

    status, headers, _ = server.post("/m/predict", b'"x"')
    late, _ = predict(server, X_Request_Timeout_Ms="200")

    assert (status, late) == (503, 504)
    assert int(headers["Retry-After"]) >= 1


def test_a_model_that_cannot_be_loaded_says_so(serve_toml):
    server = serve_toml(ON_DEMAND + "options = { fails = true }\n")

    status, _ = predict(server)

    assert status == 503
    wait_until(lambda: state_of(server)[0] == 503, "it is not healthy")


def test_a_model_with_stages_sleeps_and_wakes_as_one(serve):
    server = serve("--models", MODELS / "stages", "--set", "stages.idle_s=1")
    for _ in range(2):
        status, _, content = server.post("/stages/predict", b'{"x": [1, 2]}')
        assert (status, b"3" in content) == (200, True), content
        wait_until(lambda: not server.workers(), "the workers have left")


def test_a_reload_takes_the_new_settings_of_a_sleeping_model(serve_toml, tmp_path):
    server = serve_toml(ON_DEMAND)
    settings = tmp_path / "servekit.toml"
    settings.write_text(settings.read_text().replace("replicas = 0", "replicas = 1"))
    command(server, "reload")

    wait_until(lambda: models_of(server)["is_ready"], "a worker serves")

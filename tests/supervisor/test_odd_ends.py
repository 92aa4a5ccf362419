# SPDX-License-Identifier: Apache-2.0
"""Services that do not want to end, and workers that stand still with nothing to do."""

import http.client
import json
import os
import signal
from pathlib import Path

import pytest

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import os, signal, sys, threading, time
from servekit import Service

def take_all_signals():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)

DOES = {
    "thread": lambda: threading.Thread(target=time.sleep, args=(1000,)).start(),
    "deaf": take_all_signals,
    "silent": lambda: (setattr(sys, "stdout", None), setattr(sys, "stderr", None)),
    "closed": lambda: (os.close(1), os.close(2)),
    "moved": lambda: (os.chdir("/"), os.umask(0o777)),
}

class S(Service):
    def predict(self, batch):
        for act in batch:
            DOES.get(act, bool)()
        return [os.getpid() for _ in batch]

    def close(self):
        if os.environ.get("CLOSES") == "never":
            time.sleep(1000)
"""
ACTS = ["thread", "deaf", "silent", "closed", "moved"]


@pytest.fixture
def serve(start, model):
    """Start a real server of one model under several names; return it and what asks it."""

    def serve_models(*names, **tables):
        directory = model(**tables)
        (directory / "service.py").write_text(SERVICE)
        server = start(*[f"{name}={directory}" for name in names], stand_ins={})
        address = server.wait_for("serving")["url"].removeprefix("http://")
        return server, lambda name, act="": post(address, name, act)

    return serve_models


def post(address, name, act):
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", f"/{name}/predict", json.dumps(act), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("prediction")
    finally:
        connection.close()


def test_nothing_that_a_service_did_delays_the_end(serve, processes, run_dir):
    server, predict = serve(*ACTS)
    answers = {act: [predict(act, act), predict(act)] for act in ACTS}
    children = processes(server.process.pid)
    server.signal(signal.SIGTERM)
    status = server.wait_exit()

    for act, (first, second) in answers.items():
        assert (act, first) == (act, second)
        assert first[0] == 200
    assert status == 0
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert list(run_dir.iterdir()) == []


@pytest.mark.slow
def test_service_that_never_closes_is_killed(serve):
    server, predict = serve("one", worker={"env": '{ CLOSES = "never" }'})
    assert predict("one")[0] == 200
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0


@pytest.mark.slow
def test_worker_that_stands_still_while_idle_is_found_without_a_request(serve):
    server, predict = serve("one")
    _, pid = predict("one")
    os.kill(pid, signal.SIGSTOP)
    reason = server.wait_for("worker_exited")["reason"]
    server.wait_for("worker_ready", generation=2)

    assert reason == "did not answer for 10 s"
    assert predict("one")[0] == 200

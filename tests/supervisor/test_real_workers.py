# SPDX-License-Identifier: Apache-2.0
"""The supervisor with the real front-end and real workers: what a client sees of a fault."""

import http.client
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from servekit.ipc.operations import Operate, Unload

from .conftest import WAIT_S, front_end_of, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import os, time
from servekit import Service

class S(Service):
    def predict(self, batch):
        for act in batch:
            if act == "die":
                os._exit(5)
            if act == "daemon":
                os.system("setsid sleep 1000 > /dev/null 2>&1 & echo started")
            if isinstance(act, float):
                print("asleep")
                time.sleep(act)
        return [os.getpid() for _ in batch]
"""
ASYNC = """
import asyncio
from servekit import Service

class S(Service):
    async def predict(self, wait_s):
        print("asleep")
        await asyncio.sleep(wait_s)
        return "awake"
"""


@pytest.fixture
def serve(start, model):
    """Start a server of one model and return it with a function that predicts."""

    def serve_model(*flags, service=SERVICE):
        directory = model()
        (directory / "service.py").write_text(service)
        server = start(directory, *flags, stand_ins={})
        port = int(server.wait_for("serving")["url"].rpartition(":")[2])
        wait_until(lambda: request(port, "GET", "/ping")[0] == 200, "not healthy")
        return server, lambda act: request(port, "POST", "/digits/predict", json.dumps(act))

    return serve_model


def request(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


def test_worker_that_dies_costs_its_batch_a_503_and_is_replaced(serve):
    server, predict = serve()
    _, before = predict(0)
    status, _ = predict("die")
    server.wait_for("worker_ready", generation=2)
    wait_until(lambda: predict(0)[0] == 200, "no replacement")
    _, after = predict(0)

    assert status == 503
    assert before["prediction"] != after["prediction"]
    assert server.wait_for("worker_exited")["exit_code"] == 5


def test_prediction_over_its_timeout_is_504_and_the_worker_is_replaced(serve):
    server, predict = serve("--predict-timeout", "0.5")
    status, _ = predict(60.0)
    gone = server.wait_for("worker_exited")
    server.wait_for("worker_ready", generation=2)

    assert status == 504
    assert (gone["exit_code"], gone["restart_s"]) == (-9, 0.0)


@pytest.mark.parametrize(
    ("signals", "seconds", "status"),
    [
        pytest.param([signal.SIGTERM], 1.0, 200, id="one signal finishes what is in flight"),
        pytest.param([signal.SIGTERM] * 2, 60.0, 503, id="two signals give it up"),
    ],
)
def test_end_with_a_request_in_flight(serve, signals, seconds, status):
    server, predict = serve()
    with ThreadPoolExecutor(1) as pool:
        in_flight = pool.submit(predict, seconds)
        server.wait_for("output", message="asleep")
        for number in signals:
            server.signal(number)
            server.wait_for("stopping")

    assert in_flight.result()[0] == status
    assert server.wait_exit() == 0


def test_daemon_of_a_service_does_not_outlive_the_server(serve, processes):
    server, predict = serve()
    predict("daemon")
    server.wait_for("output", message="started")
    children = processes(server.process.pid)
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert not any(is_sleep(pid) for pid in children)


def is_sleep(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


def test_front_end_killed_is_serving_again(serve):
    server, predict = serve()
    os.kill(front_end_of(server), signal.SIGKILL)
    server.wait_for("front_end_exited")

    def answers():
        try:
            return predict(0)[0] == 200
        except OSError:
            return False

    wait_until(answers, "not serving again")


def test_a_request_on_an_old_version_is_answered_although_the_model_is_unloaded(serve, tmp_path):
    server, predict = serve(service=ASYNC)
    with ThreadPoolExecutor() as pool, server.control() as control:
        waiting = pool.submit(predict, 4.0)
        server.wait_for("output", message="asleep")
        (tmp_path / "digits" / "service.py").write_text(ASYNC + "# 2")
        server.signal(signal.SIGHUP)
        server.wait_for("model_reloaded")
        control.send(Operate("o1", Unload(model="digits")))

        assert waiting.result() == (200, {"prediction": "awake"})


def test_a_model_that_sleeps_has_no_processes(serve, processes):
    """Neither workers nor the parent that they were forked from."""
    server, predict = serve("--set", "digits.preload=true", "--set", "digits.idle_s=1")
    _, first = predict(1)
    server.wait_for("model_asleep")
    wait_until(lambda: not of_digits(processes(server.process.pid)), "processes are left")
    status, second = predict(1)

    assert (status, second != first) == (200, True)
    server.wait_for("preloaded", count=2)


def of_digits(pids):
    """Return those of *pids* that are workers of digits, or their parent."""
    commands = {}
    for pid in pids:
        with suppress(OSError):  # it has ended
            commands[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return [pid for pid, command in commands.items() if b"digits/1.0" in command]

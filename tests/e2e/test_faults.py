# SPDX-License-Identifier: Apache-2.0
"""Killed processes under load: nothing is lost that a promise covers."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from tests.processes import is_alive
from tests.waiting import wait_until

from .conftest import WAIT_S

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def ask(server, **item):
    status, _, body = server.post("/slow/predict", json.dumps(item).encode())
    return status, json.loads(body)


def test_killed_worker_costs_its_batch_a_503_and_nobody_else_anything(serve):
    server = serve("--models", MODELS / "slow", MODELS / "points", "--replicas=1")
    victim = ask(server)[1]["prediction"]["pid"]
    with ThreadPoolExecutor(2) as pool:
        inside = pool.submit(ask, server, seconds=25)
        wait_until(lambda: _busy(victim), "the worker has its batch")
        others = [server.post("/points/predict", b'{"x": 1}')[0] for _ in range(20)]
        os.kill(victim, signal.SIGKILL)
        killed = monotonic()
        status, problem = inside.result()
        died_s = monotonic() - killed

    assert (status, problem["title"]) == (503, "Worker lost")
    assert died_s < 10, "the death was not noticed before the batch would have ended"
    assert set(others) == {200}
    assert replacement(server) != victim


def replacement(server):
    """Return the pid of the next worker; on a busy machine it may start later than a deadline."""
    answers = []

    def answers_again():
        status, answer = ask(server)
        assert status in (200, 504)
        answers.append(answer)
        return status == 200

    wait_until(answers_again, "the model answers again")
    return answers[-1]["prediction"]["pid"]


def _busy(pid):
    """Whether the process sleeps in a timer, as ``time.sleep`` does."""
    return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text()


def test_worker_that_ends_itself_is_replaced(serve):
    server = serve("--models", MODELS / "slow")

    assert ask(server, exit=3)[0] == 503
    assert replacement(server)
    server.wait_for("exited")


def test_hung_worker_is_killed_and_its_request_gets_504(serve):
    server = serve("--models", MODELS / "slow", "--predict-timeout", 2)
    before = replacement(server)
    started = monotonic()

    assert ask(server, seconds=200)[0] == 504
    assert 1.9 < monotonic() - started < 100
    assert replacement(server) != before


def test_killed_front_end_is_back_with_the_same_workers(serve):
    server = serve("--models", MODELS / "slow")
    before = ask(server)[1]["prediction"]["pid"]
    front_ends = [pid for pid in server.tree() if b"servekit.frontend" in _command(pid)]
    for pid in front_ends:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, front_ends)), "the front-end is gone")

    status, answer = ask(server)

    assert (status, answer["prediction"]["pid"]) == (200, before)


def _command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_answers_what_is_in_flight_and_exits_with_0(serve, number):
    server = serve("--models", MODELS / "slow")
    victim = ask(server)[1]["prediction"]["pid"]
    with ThreadPoolExecutor(1) as pool:
        inside = pool.submit(ask, server, seconds=2)
        wait_until(lambda: _busy(victim), "the worker has its batch")
        server.process.send_signal(number)

        assert inside.result()[0] == 200
    assert server.process.wait(WAIT_S) == 0
    assert "Traceback" not in server.output


def test_model_that_cannot_load_does_not_hold_up_the_others(serve, tmp_path):
    (tmp_path / "model.toml").write_text('name = "broken"\nservice = "service:Broken"\n')
    (tmp_path / "service.py").write_text("raise RuntimeError('no weights')\n")
    server = serve("--models", tmp_path, MODELS / "points")

    assert server.post("/points/predict", b'{"x": 1}')[0] == 200
    assert server.post("/broken/predict", b"{}")[0] == 503
    status, health = server.get("/ping")
    assert status == 503
    assert "broken" in health.decode()


def test_only_model_that_cannot_load_ends_the_start_with_3(serve, tmp_path):
    (tmp_path / "model.toml").write_text('name = "broken"\nservice = "service:Broken"\n')
    (tmp_path / "service.py").write_text("raise RuntimeError('no weights')\n")
    server = serve("--models", tmp_path, ready=False)

    assert server.process.wait(WAIT_S) == 3
    server.wait_for("no weights")


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.2])
def test_stop_while_front_ends_are_replaced_is_heard(serve, delay_s):
    server = serve("--models", MODELS / "points")
    server.process.send_signal(signal.SIGHUP)
    threading.Event().wait(delay_s)
    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(WAIT_S) == 0

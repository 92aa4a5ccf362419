# SPDX-License-Identifier: Apache-2.0
"""Replicas that are forked from a parent, which has imported the service."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from servekit.testing import ServedModel
from tests.processes import is_alive
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import os, threading, time
from servekit import Service

IMPORTED_BY = os.getpid()
time.sleep(3.0)
if THREADS:
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

class Slow(Service):
    def load(self, context):
        self.facts = [context.replica, os.getppid()]
        print("loaded", os.environ["MODE"], flush=True)

    def predict(self, batch):
        time.sleep(0.02)
        return [[os.getpid(), IMPORTED_BY, *self.facts]] * len(batch)
"""
MODEL = """
name = "slow"
version = "1"
service = "service:Slow"
batching.max_batch_size = 1
worker.preload = true
"""


@pytest.fixture
def serve_slow(tmp_path):
    """Serve the model with two replicas and ``preload``."""
    started = []

    def start(*, threads=False):
        (tmp_path / "service.py").write_text(SERVICE.replace("THREADS", str(threads)))
        (tmp_path / "model.toml").write_text(MODEL)
        given = ["slow.replicas=2", "slow.env.MODE=fast"]
        started.append(ServedModel(tmp_path, set=given))
        served = started[-1].wait_ready()
        served.log.wait_for("worker_ready", count=2)
        return served

    yield start
    for served in started:
        served.stop()


def workers(served):
    """Return the pid of each replica that has answered, and of the process that imported it."""
    found = {}

    def have_answered():
        with ThreadPoolExecutor(4) as pool:
            for answer in pool.map(served.predict, [1] * 4):
                pid, imported_by, replica, _ = answer.prediction
                found[replica] = (pid, imported_by)
        return len(found) == 2

    wait_until(have_answered, "both replicas answer")
    return found


def test_replicas_come_from_a_parent_that_has_imported_the_service(serve_slow):
    served = serve_slow()
    notice = served.log.wait_for("preloaded")
    found = workers(served)
    pids, importers = (set(each) for each in zip(*found.values(), strict=True))
    (parent,) = importers

    assert "has imported the service in " in notice["message"]
    assert len(pids) == 2
    assert parent not in pids
    assert all(each["load_s"] < 3.0 for each in served.log.find("worker_ready"))
    assert served.log.text.count("loaded fast") == 2  # environment and output are their own
    assert served.predict(1).prediction[3] != parent  # the supervisor waits for it
    served.stop()
    assert not any(is_alive(pid) for pid in (*pids, parent))


@pytest.mark.slow
def test_a_worker_that_is_killed_is_forked_again(serve_slow):
    served = serve_slow()
    (first, parent), _ = workers(served).values()
    os.kill(first, signal.SIGKILL)
    ended = served.log.wait_for("worker_exited")
    served.log.wait_for("worker_ready", count=3)

    assert ended["exit_code"] == -signal.SIGKILL
    assert {imported_by for _, imported_by in workers(served).values()} == {parent}


@pytest.mark.slow
def test_without_its_parent_a_model_serves_on(serve_slow):
    served = serve_slow()
    (first, parent), _ = workers(served).values()
    os.kill(parent, signal.SIGKILL)
    served.log.wait_for("not_preloaded", level="warning")
    os.kill(first, signal.SIGKILL)
    served.log.wait_for("worker_ready", count=3)
    importers = dict(workers(served).values())

    assert any(pid == imported_by for pid, imported_by in importers.items())


@pytest.mark.slow
def test_imports_that_start_threads_are_not_forked(serve_slow):
    served = serve_slow(threads=True)
    notice = served.log.wait_for("not_preloaded", level="warning")

    assert "its imports start threads (1), which a fork does not copy" in notice["message"]
    assert all(pid == imported_by for pid, imported_by in workers(served).values())

# SPDX-License-Identifier: Apache-2.0
"""Replicas that follow the load, and replicas that grow, while clients ask."""

import json
import shutil
import threading
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from servekit.testing import ServedModel
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

SERVICE = """
import os, time
from servekit import Service

class Slow(Service):
    def load(self, context):
        self.kept = []

    def predict(self, batch):
        time.sleep(0.06)
        self.kept += [bytearray(os.urandom(1)) * (item << 20) for item in batch]
        return [os.getpid()] * len(batch)
"""
MODEL = 'name = "slow"\nversion = "1"\nservice = "service:Slow"\n'
WIDE = "replicas={ min = 1, max = 3 }"


class Clients:
    """Ask all the time, or with a pause in between, and keep what fails."""

    def __init__(self, served, count, item=0, pause_s=0.0):
        self._url, self._body = f"{served.url}/slow/predict", json.dumps(item).encode()
        self._ends, self._pause_s = threading.Event(), pause_s
        self.pids, self.failures = [], []
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def _ask(self):
        headers = {"Content-Type": "application/json"}
        while not self._ends.wait(self._pause_s):
            try:
                with urlopen(Request(self._url, self._body, headers), timeout=30) as response:
                    self.pids.append(json.load(response)["prediction"])
            except (URLError, OSError) as error:
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def serve_slow(tmp_path):
    """Serve the model with settings."""
    started = []

    def start(*assignments):
        (tmp_path / "slow").mkdir()
        (tmp_path / "slow/service.py").write_text(SERVICE)
        (tmp_path / "slow/model.toml").write_text(MODEL)
        given = [f"slow.{text}" for text in assignments]
        started.append(ServedModel(tmp_path / "slow", set=given))
        return started[-1].wait_ready()

    yield start
    for served in started:
        served.stop()
    shutil.rmtree(tmp_path / "slow")


@pytest.mark.slow
def test_replicas_follow_the_load_and_no_request_fails(serve_slow):
    served = serve_slow(WIDE, "batching.max_batch_size=1")
    with Clients(served, 1, pause_s=0.2) as few:
        with Clients(served, 8) as many:
            served.log.wait_for("model_scaled", replicas=2)
            served.log.wait_for("model_scaled", replicas=3)
            served.log.wait_for("worker_ready", count=3)
            wait_until(lambda: len(set(many.pids)) == 3, "all three answer")
        served.log.wait_for("model_scaled", count=2, replicas=2)
        served.log.wait_for("model_scaled", replicas=1)
        answered = len(few.pids)
        wait_until(lambda: len(few.pids) > answered + 5, "the last one answers")

    assert few.failures + many.failures == []


@pytest.mark.slow
def test_a_replica_that_grows_is_replaced_and_no_request_fails(serve_slow):
    served = serve_slow("max_memory=150MiB")
    with Clients(served, 2, item=2) as clients:
        grown = served.log.wait_for("replica_grown", model="slow")
        first = clients.pids[0]
        wait_until(lambda: clients.pids[-1] != first, "the spare answers")

    assert clients.failures == []
    assert len(set(clients.pids)) == 2
    assert grown["max_bytes"] == 150 << 20 < grown["used_bytes"]

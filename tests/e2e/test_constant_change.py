# SPDX-License-Identifier: Apache-2.0
"""A server that is scaled, reloaded and harmed while clients ask: no request fails."""

import itertools
import json
import os
import signal
import threading
from collections import Counter

import pytest

from servekit.cli import main
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

RELOADS = 50
CLIENTS = 4
SERVICE = """
import os
from servekit import Service

class Echo(Service):
    def predict(self, batch):
        return [[value, os.getpid()] for value in batch]
"""
#: a request whose worker is killed goes to another one
MODEL = 'name = "echo"\nversion = "1"\nservice = "service:Echo"\nretry = true\n'


class Clients:
    """Each asks for the next number all the time; no two requests are the same."""

    def __init__(self, server):
        self._server, self._end, self._numbers = server, threading.Event(), itertools.count()
        self.outcomes, self.pids = Counter(), Counter()
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def _ask(self):
        while not self._end.is_set():
            number = next(self._numbers)
            try:
                status, _, body = self._server.post("/echo/predict", json.dumps(number).encode())
            except OSError as error:
                self.outcomes[repr(error)] += 1
                continue
            if status != 200:
                self.outcomes[status, bytes(body)] += 1
                continue
            echoed, pid = json.loads(body)["prediction"]
            self.outcomes["answered" if echoed == number else "mixed up"] += 1
            self.pids[pid] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def server(serve, tmp_path_factory):
    place = tmp_path_factory.mktemp("r")  # a short path: those of sockets are limited
    (place / "echo").mkdir()
    (place / "echo/service.py").write_text(SERVICE)
    (place / "echo/model.toml").write_text(MODEL)
    served = serve("--models", place / "echo", "--run-dir", place)
    served.run_dir = place
    return served


def scale(server, replicas):
    """Have *replicas* of them, and return when all others have left."""
    command = ["scale", "echo", str(replicas), "--run-dir", str(server.run_dir)]
    wait_until(lambda: main(command) == 0, f"not busy with a reload: scaled to {replicas}")
    wait_until(lambda: len(server.workers()) == replicas, f"{replicas} workers run")


@pytest.mark.slow
def test_scaling_reloads_and_kills_under_load_cost_no_request(server):
    with Clients(server) as clients:
        for turn in range(RELOADS):
            server.process.send_signal(signal.SIGHUP)
            if turn in (10, 30):
                scale(server, 4)
            if turn in (20, 40):
                scale(server, 1)
            if turn % 5 == 0:
                os.kill(max(server.workers()), signal.SIGKILL)
            before = clients.outcomes["answered"]
            wait_until(lambda b=before: clients.outcomes["answered"] > b + 20, "requests go on")
        scale(server, 4)
        clients.pids.clear()
        wait_until(lambda: len(clients.pids) == 4, "all four answer")
        scale(server, 1)

    print(f"{clients.outcomes.total()} requests")
    assert set(clients.outcomes) == {"answered"}, clients.outcomes

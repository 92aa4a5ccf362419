# SPDX-License-Identifier: Apache-2.0
"""What the supervisor counts, as ``/metrics`` of a real server shows it."""

import http.client
import os
import signal

import pytest

from .conftest import WAIT_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import ctypes, os
from servekit import Service

class S(Service):
    def predict(self, batch):
        for act in batch:
            {"exit": lambda: os._exit(3), "segfault": lambda: ctypes.string_at(0)}.get(act, bool)()
        return batch
"""


def ask(address, method, path, body=None):
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_kills_crashes_and_reloads_are_counted(start, model):
    directory = model()
    (directory / "service.py").write_text(SERVICE)
    server = start(directory, stand_ins={})
    address = server.wait_for("serving")["url"].removeprefix("http://")
    os.kill(server.wait_for("worker_ready")["pid"], signal.SIGKILL)
    for generation, act in ((2, "segfault"), (3, "exit"), (4, None)):
        server.wait_for("worker_ready", generation=generation)
        wait_until(lambda: '"healthy!"' in ask(address, "GET", "/ping"), "not healthy")
        if act:
            ask(address, "POST", "/digits/predict", f'"{act}"')
    server.signal(signal.SIGHUP)
    server.wait_for("model_unchanged")
    (directory / "service.py").write_text("raise ValueError")
    server.signal(signal.SIGHUP)
    server.wait_for("reload_failed")
    expected = {
        'servekit_restarts_total{model="digits",version="1.0"} 3.0',
        *(
            f'servekit_crashes_total{{cause="{cause}",model="digits",version="1.0"}} 1.0'
            for cause in ("killed", "signal", "exited", "load_failed")
        ),
        'servekit_replicas{model="digits",state="serving",version="1.0"} 1.0',
        'servekit_reloads_total{result="unchanged"} 1.0',
        'servekit_reloads_total{result="failed"} 1.0',
    }

    def missing():
        return expected - set(ask(address, "GET", "/metrics").splitlines())

    wait_until(lambda: not missing(), f"not counted: {missing()}")

# SPDX-License-Identifier: Apache-2.0
"""Nothing that a service starts outlives the server, not even a server that is killed."""

import http.client
import json
import os
import signal
import socket
from contextlib import closing

import pytest

from tests.processes import is_alive

from .conftest import WAIT_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import os, subprocess, sys
from servekit import Service

def fork():
    pid = os.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "1000"])
    return pid

STARTS = {
    "popen": lambda: subprocess.Popen(["sleep", "1000"]).pid,
    "fork": fork,
    "session": lambda: subprocess.Popen(["sleep", "1000"], start_new_session=True).pid,
    "daemon": lambda: int(subprocess.run(
        ["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 & echo $!"],
        capture_output=True, check=True).stdout),
}

class S(Service):
    def predict(self, batch):
        return [[os.getpid(), *(STARTS[act]() for act in acts)] for acts in batch]
"""
ACTS = ["popen", "fork", "session", "daemon"]


@pytest.fixture
def served(start, model):
    """Start a server whose service starts programs; return it, its worker, and the programs."""
    directory = model()
    (directory / "service.py").write_text(SERVICE)
    server = start(directory, stand_ins={})
    server.url = server.wait_for("serving")["url"]
    address = server.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(address, timeout=WAIT_S)) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/digits/predict", json.dumps(ACTS), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
    assert answer.status == 200, f"{said} {server.events}"
    worker, *programs = said["prediction"]
    assert all(map(is_alive, programs))
    yield server, worker, programs
    for pid in programs:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False  # the kernel closes the sockets of a killed process last of all


def test_killed_supervisor_takes_along_what_services_started(served, run_dir):
    server, worker, programs = served
    os.kill(server.process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, [worker, *programs])), "one lives on")

    wait_until(lambda: not list(run_dir.iterdir()), "the run directory is left")
    port = int(server.url.rpartition(":")[2])
    wait_until(lambda: is_refused(port), "something still listens")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_killed_worker_takes_along_what_it_started(served, number):
    server, worker, programs = served
    os.kill(worker, number)
    server.wait_for("worker_ready", generation=2)

    wait_until(lambda: not any(map(is_alive, programs)), "one lives on")


def test_stopped_server_leaves_nothing_of_it(served):
    server, worker, programs = served
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert not any(map(is_alive, [worker, *programs]))

# SPDX-License-Identifier: Apache-2.0
"""What services leave behind: it lives as long as its own worker, and is reaped when it ends."""

import http.client
import json
import os
import signal
from pathlib import Path

import pytest

from tests.processes import is_alive

from .conftest import WAIT_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import os, signal, subprocess, sys, time
from servekit import Service

def twice(act, leave_session=True):
    if os.fork() == 0:
        if os.fork() == 0:
            if leave_session:
                os.setsid()
            act()
        os._exit(0)

def helper(leave_session, environment=None):
    reader, writer = os.pipe()
    def act():
        os.write(writer, str(os.getpid()).encode())
        os.execve("/bin/sleep", ["sleep", "1000"], os.environ | (environment or {}))
    twice(act, leave_session)
    return int(os.read(reader, 20))

DOES = {
    "helper": lambda: helper(True),
    "same session": lambda: helper(False),
    "many": lambda: [twice(lambda: os._exit(0)) for _ in range(200)] and 0,
    "die": lambda: os._exit(5),
}

class S(Service):
    def predict(self, batch):
        return [DOES[act]() for act in batch]
"""


@pytest.fixture
def served(start, model):
    directory = model()
    (directory / "service.py").write_text(SERVICE)
    server = start(f"one={directory}", f"two={directory}", stand_ins={})
    address = server.wait_for("serving")["url"].removeprefix("http://")
    return server, lambda name, act: post(address, name, act)


def post(address, name, act):
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", f"/{name}/predict", json.dumps(act), headers)
        answer = connection.getresponse()
        return json.loads(answer.read()).get("prediction")
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["helper", "same session"])
def test_a_crash_ends_the_helpers_of_its_own_model_alone(served, kind):
    server, ask = served
    helpers = {name: ask(name, kind) for name in ("one", "two")}
    for generation in (2, 3):  # events enough to look for orphans
        ask("one", "die")
        server.wait_for("worker_ready", model="one", generation=generation)
    wait_until(lambda: not is_alive(helpers["one"]), "the helper of the dead worker lives")

    assert is_alive(helpers["two"])
    ask("two", "die")
    wait_until(lambda: not is_alive(helpers["two"]), "the helper of the dead worker lives")


def test_what_ends_is_reaped_at_once(served, processes):
    server, ask = served
    ask("one", "many")

    def dead():
        found = []
        for pid in processes(server.process.pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] == "Z" and int(fields[1]) == server.process.pid:
                found.append(pid)
        return found

    wait_until(lambda: not dead(), "nobody reaps")


def test_killing_workers_while_they_boot_does_not_give_the_model_up(start, model, processes):
    server = start(model(act="hang"))
    for generation in range(1, 7):
        wait_until(lambda: booting(server, processes), f"worker {generation} does not boot")
        os.kill(booting(server, processes)[0], signal.SIGKILL)
        gone = server.wait_for("worker_exited", generation=generation)

        assert (gone["exit_code"], gone["restart_s"] <= 4.0) == (-9, True)
    assert server.process.poll() is None


def booting(server, processes):
    """Return the workers that have begun to run."""
    found = []
    for pid in processes(server.process.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"stand_in_worker.py" in command:
            found.append(pid)
    return found

# SPDX-License-Identifier: Apache-2.0
"""Plugins are told what happens, and cannot harm the server by what they do then."""

import http.client
import json
import os
import signal
import textwrap

import pytest

from .conftest import WAIT_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TELL = """
    import json, os
    from pathlib import Path
    from servekit import hookimpl
    import msgspec

    def tell(event):
        with open(os.environ["TOLD"], "ab") as file:
            file.write(msgspec.json.encode(event) + b"\\n")

    @hookimpl
    def server_started(event): tell(event)
    @hookimpl
    def server_stopping(event): tell(event)
    @hookimpl
    def model_loaded(event): tell(event)
    @hookimpl
    def model_unloaded(event): tell(event)
    @hookimpl
    def worker_ready(event): tell(event)
    @hookimpl
    def worker_exited(event): tell(event)
    @hookimpl
    def batch_served(event): tell(event)
"""
CRASH = """
    import os
    from servekit import hookimpl

    @hookimpl
    def worker_ready(event): os._exit(7)
"""
HANG = """
    import time
    from servekit import hookimpl

    @hookimpl
    def worker_ready(event): time.sleep(600)
"""
SERVICE = """
import os
from servekit import Service

class S(Service):
    def predict(self, batch):
        if "die" in batch:
            os._exit(3)
        return batch
"""


#: hides the plugins of this environment, which may have hooks of the observer themselves
ALONE = """
from importlib import metadata

select = metadata.EntryPoints.select

def select_alone(points, **wanted):
    return metadata.EntryPoints(
        each
        for each in select(points, **wanted)
        if each.group != "servekit" or each.name == "told"
    )

metadata.EntryPoints.select = select_alone
"""


@pytest.fixture
def serve(start, model, tmp_path):
    """Start a real server with a plugin of these hooks; return it, its directory and its port."""

    def run(hooks, *flags):
        shelf = tmp_path / "plugins"
        info = shelf / "told-1.0.dist-info"
        info.mkdir(parents=True)
        (shelf / "told_hooks.py").write_text(textwrap.dedent(hooks))
        (shelf / "sitecustomize.py").write_text(ALONE)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[servekit]\ntold = told_hooks\n")
        directory = model()
        (directory / "service.py").write_text(SERVICE)
        server = start(
            directory, *flags, stand_ins={}, PYTHONPATH=str(shelf), TOLD=str(tmp_path / "told")
        )
        port = int(server.wait_for("serving")["url"].rpartition(":")[2])
        return server, directory, port

    return run


@pytest.fixture
def told(tmp_path):
    """Return the events that were told, by name."""

    def read():
        path = tmp_path / "told"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    return read


def ask(port, what, request_id="r"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    try:
        connection.request("POST", "/digits/predict", json.dumps(what), headers)
        return connection.getresponse().status
    finally:
        connection.close()


def names(events):
    return [event["event"] for event in events]


def test_a_plugin_is_told_of_a_whole_life(serve, told):
    server, directory, port = serve(TELL)
    assert ask(port, 1) == 200
    assert ask(port, "die", "deadly") == 503
    server.wait_for("worker_ready", generation=2)
    (directory / "service.py").write_text(SERVICE + "\n# changed")
    server.signal(signal.SIGHUP)
    server.wait_for("model_reloaded")
    wait_until(lambda: names(told()).count("model_unloaded") == 1, "the old version is not gone")
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0
    events = told()

    life = [name for name in names(events) if name != "batch_served"]  # which front-ends send
    assert life[:3] == ["worker_ready", "model_loaded", "server_started"]
    crashed = next(e for e in events if e["event"] == "worker_exited" and e["cause"] == "exited")
    assert (crashed["exit_code"], crashed["request_ids"]) == (3, ["deadly"])
    batch = next(event for event in events if event["event"] == "batch_served")
    assert (batch["model"], batch["size"], batch["statuses"]) == ("digits", 1, {"200": 1})
    first, second = [event for event in events if event["event"] == "model_loaded"]
    assert (first["replaces"], second["replaces"]) == ("", "1.0")
    assert first["digest"] != second["digest"]
    gone = [event["reason"] for event in events if event["event"] == "model_unloaded"]
    assert gone == ["replaced", "stopped"]
    (stopping,) = [event for event in events if event["event"] == "server_stopping"]
    assert stopping["reason"] == "SIGTERM"


def test_a_plugin_that_ends_the_observer_does_not_end_the_server(serve):
    server, _, port = serve(CRASH)
    gone = server.wait_for("observer_exited")

    assert gone["message"].startswith("exited with 7 after ")
    assert ask(port, 1) == 200
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0


def test_a_plugin_that_hangs_is_not_waited_for(serve):
    server, _, port = serve(HANG)
    server.wait_for("observer_started")
    assert ask(port, 1) == 200
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0


def test_a_killed_observer_is_replaced_and_misses_nothing_later(serve, told):
    server, _, port = serve(TELL)
    pid = server.wait_for("observer_started")["pid"]
    wait_until(lambda: "server_started" in names(told()), "the start was not told")
    os.kill(pid, signal.SIGKILL)
    server.wait_for("observer_started", count=2)
    ask(port, "die")
    wait_until(lambda: "worker_exited" in names(told()), "the crash was not told")


def test_without_such_a_plugin_there_is_no_observer(serve, run_dir):
    server, _, port = serve("from servekit import hookimpl\n")
    assert ask(port, 1) == 200
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert "observer_started" not in [event["event"] for event in server.events]

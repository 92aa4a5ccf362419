# SPDX-License-Identifier: Apache-2.0
"""Settings of plugins reach their hooks, and their processes live and end with the server."""

import http.client
import json
import os
import signal
import textwrap

import pytest

from tests.processes import is_alive

from .conftest import WAIT_S, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

HOOKS = """
    from typing import Annotated
    from msgspec import Meta, Struct
    from servekit import hookimpl

    class Settings(Struct):
        act: Annotated[str, Meta(description="what the process does")] = ""
        times: int = 1
        is_required: bool = True

    @hookimpl
    def register_settings():
        return Settings

    @hookimpl
    def register_processes(server):
        from servekit.extension import ProcessOffer

        settings = server.plugin_settings("side")
        arguments = [server.client_socket, settings.act]
        return [
            ProcessOffer(
                name=f"gate-{number}",
                module="side_process",
                arguments=arguments,
                is_required=settings.is_required,
            )
            for number in range(settings.times)
        ]
"""
PROGRAM = """
    import os, signal, sys

    from servekit.extension import UnixConnection

    path, act = sys.argv[1:]

    def ask(method, target, body=None):
        connection = UnixConnection(path, 60)
        connection.request(method, target, body, {"Content-Type": "application/json"})
        return connection.getresponse().status

    def leave(*_):
        print("last", ask("POST", "/digits/predict", '"slow"'))
        sys.exit()

    if act == "fail":
        sys.exit(3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if act == "stubborn" else leave)
    print("hello", ask("GET", "/ping/live"), os.environ.get("SERVEKIT_PREDICT_TOKEN"))
    while True:
        signal.pause()
"""
SERVICE = """
import time
from servekit import Service

class S(Service):
    def predict(self, batch):
        if "slow" in batch:
            time.sleep(1)
        return batch
"""


@pytest.fixture
def serve(start, model, tmp_path):
    """Start a real server with the plugin ``side``; the keywords are its settings."""

    def run(*flags, **settings):
        shelf = tmp_path / "plugins"
        info = shelf / "side-1.0.dist-info"
        info.mkdir(parents=True)
        (shelf / "side_hooks.py").write_text(textwrap.dedent(HOOKS))
        (shelf / "side_process.py").write_text(textwrap.dedent(PROGRAM))
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: side\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[servekit]\nside = side_hooks\n")
        config = tmp_path / "servekit.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        config.write_text("\n".join(["[plugins.side]", *lines]))
        directory = model()
        (directory / "service.py").write_text(SERVICE)
        variables = {"PYTHONPATH": str(shelf), "SERVEKIT_MANAGE_TOKEN": "secret"}
        return start(directory, "--config", config, *flags, stand_ins={}, **variables)

    return run


def ping(server):
    port = int(server.wait_for("serving")["url"].rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", "/ping")
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_each_is_started_reaches_the_server_and_is_logged(serve):
    server = serve(times=2)
    server.wait_for("serving")

    for name in ("process/side/gate-0", "process/side/gate-1"):
        server.wait_for("process_started", subject=name)
        assert server.wait_for("output", subject=name)["message"] == "hello 200 None"


def test_one_that_ends_is_started_again(serve):
    server = serve()
    server.wait_for("output", message="hello 200 None")
    os.kill(server.wait_for("process_started")["pid"], signal.SIGKILL)

    assert server.wait_for("process_exited")["message"].startswith("exited with -9 after ")
    server.wait_for("output", count=2, message="hello 200 None")


@pytest.mark.parametrize(
    ("is_required", "status"),
    [
        pytest.param(True, 503, id="a required one that fails is told"),
        pytest.param(False, 200, id="another one is not"),
    ],
)
def test_one_that_fails(serve, is_required, status):
    server = serve(act="fail", is_required=is_required)
    server.wait_for("process_exited", count=3)
    wait_until(lambda: ping(server)[0] == status, f"/ping does not answer {status}")

    if is_required:
        assert ping(server)[1]["reasons"] == ["process side/gate-0 is not running"]


def test_what_it_has_accepted_is_answered_at_the_end(serve):
    server = serve()
    server.wait_for("serving")
    server.wait_for("output", message="hello 200 None")
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert server.wait_for("output", message="last 200")


def test_one_that_does_not_want_to_end_is_killed(serve):
    server = serve("--grace", 1, act="stubborn")
    server.wait_for("output", message="hello 200 None")
    pid = server.wait_for("process_started")["pid"]
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("flag", "settings", "message"),
    [
        pytest.param(
            "side.time=2", {}, "--plugin side.time: unknown key 'time', did you mean", id="a flag"
        ),
        pytest.param(
            "side.act=", {"times": "2"}, "servekit.toml: plugins.side.times: expected", id="a file"
        ),
    ],
)
def test_a_setting_that_is_refused_ends_the_start(serve, flag, settings, message):
    server = serve("--plugin", flag, **settings)

    assert server.wait_exit() == 3
    assert message in server.events[-1]["message"]

# SPDX-License-Identifier: Apache-2.0
"""``[[daemons]]``: programs that run beside the server."""

import json
import os
import signal

import pytest

from tests.processes import is_alive

from .conftest import wait_until
from .test_supervisor import is_serving

SCRIPT = """\
import os, signal, sys
from pathlib import Path
def read(path):
    try: return path.read_bytes()
    except OSError: return b""
def leave(*_):
    ours = [path.parent for path in Path("/proc").glob("[0-9]*/stat")
            if f" {os.getppid()} ".encode() in read(path)]
    print("bye", any(b"worker" in read(path / "cmdline") for path in ours), flush=True)
    sys.exit()
if sys.argv[1:] == ["stubborn"]: signal.signal(signal.SIGTERM, signal.SIG_IGN)
else: signal.signal(signal.SIGTERM, leave)
print("hello", os.environ.get("COLOUR"), os.environ.get("SERVEKIT_PREDICT_TOKEN"), flush=True)
if sys.argv[1:] == ["fail"]: sys.exit(3)
signal.pause()
"""


@pytest.fixture
def config(tmp_path):
    """Write a ``servekit.toml`` with one daemon, a script beside it."""

    def write(*arguments, **more):
        (tmp_path / "program.py").write_text(SCRIPT)
        lines = ["[[daemons]]", 'name = "side"']
        lines.append(f"command = {json.dumps(['python3', 'program.py', *arguments])}")
        lines += [f"{key} = {value}" for key, value in more.items()]
        path = tmp_path / "servekit.toml"
        path.write_text("\n".join(lines))
        return path

    return write


def pid_of(server, count=1):
    return server.wait_for("daemon_started", count)["pid"]


@pytest.mark.slow
def test_it_is_started_first_with_its_environment_and_its_output_is_shown(start, model, config):
    path = config(env='{ COLOUR = "red" }')
    server = start(model(), "--config", path, SERVEKIT_PREDICT_TOKEN="secret")
    server.wait_for("serving")

    shown = server.wait_for("output", subject="daemon/side")
    events = [event["event"] for event in server.events]
    assert shown["message"] == "hello red None"
    assert events.index("daemon_started") < events.index("worker_ready")


@pytest.mark.slow
def test_one_that_ends_is_started_again(start, model, config):
    server = start(model(), "--config", config())
    server.wait_for("serving")
    os.kill(pid_of(server), signal.SIGKILL)

    ended = server.wait_for("daemon_exited")
    assert ended["message"].startswith("exited with -9 after ")
    assert ended["restart_s"] == 0
    assert is_alive(pid_of(server, count=2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("required", "missing"),
    [
        pytest.param("true", ["side"], id="a required one that fails is published"),
        pytest.param("false", [], id="another one is not"),
    ],
)
def test_one_that_fails_does_not_keep_the_models_from_serving(
    start, model, config, required, missing
):
    server = start(model(), "--config", config("fail", required=required))
    server.wait_for("serving")
    server.wait_for("daemon_exited", count=2)
    with server.control() as control:
        table = control.wait_for(
            lambda table: is_serving(table) and table.missing_daemons == missing
        )

    assert table.missing_daemons == missing


def test_one_that_cannot_be_started_ends_the_start(start, model, tmp_path):
    path = tmp_path / "servekit.toml"
    path.write_text('[[daemons]]\nname = "redis"\ncommand = ["no-such-program"]\n')
    server = start(model(), "--config", path)

    assert server.wait_exit() == 3
    text = "daemon redis: no-such-program: no such file or directory"
    assert server.events[-1]["message"] == text


@pytest.mark.slow
def test_it_goes_last(start, model, config):
    server = start(model(), "--config", config())
    server.wait_for("serving")
    pid = pid_of(server)
    server.signal(signal.SIGTERM)

    assert server.wait_exit() == 0
    assert not is_alive(pid)
    assert server.wait_for("output", message="bye False")
    assert "daemon_exited" not in [event["event"] for event in server.events]


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGQUIT, id="a hurry waits for no daemon"),
        pytest.param(signal.SIGKILL, id="nor does the guard of a killed server"),
    ],
)
def test_one_that_does_not_want_to_end_is_killed(start, model, config, number):
    server = start(model(), "--config", config("stubborn"))
    server.wait_for("serving")
    server.wait_for("output", subject="daemon/side")
    pid = pid_of(server)
    server.signal(number)

    server.wait_exit()
    wait_until(lambda: not is_alive(pid), "the daemon still runs")


@pytest.mark.slow
def test_its_environment_is_in_no_file(start, model, config):
    server = start(model(), "--config", config(env='{ PASSWORD = "hunter2" }'))
    server.wait_for("serving")

    (settings,) = server.run_dir.glob("servekit-run-*/settings.json")
    assert "hunter2" not in settings.read_text()

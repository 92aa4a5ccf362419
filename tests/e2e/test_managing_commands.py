# SPDX-License-Identifier: Apache-2.0
"""``servekit status``, ``models``, ``top``, ``logs`` and others, for a server that runs here."""

import fcntl
import json
import os
import threading
from pathlib import Path

import pytest

from servekit.cli import main
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND

MODELS = Path(__file__).parent / "models"
COMMANDS = ("status", "models", "top", "logs", "reload", "crashes")
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A short path: those of sockets are limited."""
    return tmp_path_factory.mktemp("r")


@pytest.fixture(scope="module")
def server(serve, place):
    """Serve a model with two replicas, and one that cannot be loaded."""
    broken = place / "broken"
    broken.mkdir()
    (broken / "model.toml").write_text('service = "service:Broken"\n')
    (broken / "service.py").write_text("raise RuntimeError('no weights')\n")
    served = serve(
        "--models", MODELS / "points", broken, "--run-dir", place, "--replicas", "2", ready=False
    )
    served.wait_for("serving")
    return served


@pytest.fixture
def ask(place, capsys):
    """Return ``ask(*words)``: exit status, stdout, stderr."""

    def run(*words, run_dir=place):
        status = main([*words, "--run-dir", str(run_dir)])
        return status, *capsys.readouterr()

    return run


def test_status_says_what_is_not_healthy_and_how_each_model_is(server, ask):
    status, out, _ = ask("status")
    lines = out.splitlines()

    assert status == PROBLEM_FOUND
    assert lines[0].startswith(f"pid {server.process.pid}, ")
    assert lines[0].endswith(": unhealthy")
    assert any(line.startswith("  broken: ") for line in lines)
    (points,) = (line.split() for line in lines if line.startswith("points "))
    assert points == ["points", "2.0", "ready", "2/2", "0/1024", "0"]


def test_status_as_json(server, ask):
    facts = json.loads(ask("status", "--json")[1])

    assert (facts["pid"], facts["is_healthy"]) == (server.process.pid, False)
    assert {model["name"]: model["is_ready"] for model in facts["models"]} == {
        "points": True, "broken": False,
    }  # fmt: skip


def test_models_are_listed_worker_by_worker(server, ask):
    rows = [line.split() for line in ask("models", "--model", "points")[1].splitlines()]
    listed = json.loads(ask("models", "--json")[1])

    assert [row[2:4] for row in rows[1:]] == [["0", "serving"], ["1", "serving"]]
    assert [model["name"] for model in listed] == ["points", "broken"]
    assert {int(row[4]) for row in rows[1:]} == {each["pid"] for each in listed[0]["replicas"]}
    assert ask("models", "--model", "nope")[:2] == (
        PROBLEM_FOUND, "no model 'nope'; served: points, broken\n",
    )  # fmt: skip


def test_one_model_in_detail(server, ask):
    lines = [line.split() for line in ask("models", "show", "points")[1].splitlines()]

    assert ["2.0", "ready", "2/2", "100", "%", "-"] in lines
    assert ["replicas", "2", "--replicas"] in lines


def test_the_log_of_one_model(server, ask):
    shown = ask("logs", "broken", "--lines", "1000")[1]

    assert "RuntimeError: no weights" in shown
    assert "points" not in shown
    subjects = {json.loads(line)["subject"] for line in ask("logs", "--json")[1].splitlines()}
    assert subjects >= {"servekit", "points/0", "broken/0"}


def test_top_counts_the_requests_between_two_looks(server, ask):
    server.wait_ready()
    stop = threading.Event()

    def predict():
        while not stop.is_set():
            server.post("/points/predict", b'{"x": 1}')

    client = threading.Thread(target=predict)
    client.start()
    try:
        found = json.loads(ask("top", "--json", "--interval", "3")[1])
    finally:
        stop.set()
        client.join()
    (points,) = (each for each in found if each["model"] == "points")

    assert points["requests_per_s"] > 0
    assert points["p50_s"] > 0
    assert points["memory_bytes"] > 10 << 20


def test_reload_reaches_the_server(server, ask):
    pid = server.process.pid

    assert ask("reload")[:2] == (
        OK, f"the server with pid {pid} is reloading; see its log for the result of each model\n",
    )  # fmt: skip
    server.wait_for("servekit reloading")
    assert json.loads(ask("reload", "--json", "--pid", str(pid))[1])["pid"] == pid


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flags", [(), ("--json",), ("--pid", "1")])
def test_without_a_server_one_line_says_so(ask, tmp_path, command, flags):
    status, out, error = ask(command, *flags, run_dir=tmp_path)

    assert (status, out, error.count("\n")) == (PROBLEM_FOUND, "", 1)
    assert f"has its run directory in {tmp_path}; --run-dir names another" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_directory_that_is_not_there_is_named(ask, tmp_path, command):
    status, _, error = ask(command, run_dir=tmp_path / "no")

    assert (status, error.startswith(f"servekit: {tmp_path}/no: no such directory")) == (1, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_another_pid_names_those_that_run(server, ask, command):
    status, _, error = ask(command, "--pid", "1")

    assert status == PROBLEM_FOUND
    assert f"; running: {server.process.pid} (" in error


@pytest.mark.parametrize("command", ["status", "models", "top", "logs", "reload"])
def test_a_server_that_does_not_answer_is_a_problem_of_one_line(ask, tmp_path, command):
    directory = tmp_path / "servekit-run-x"
    directory.mkdir()
    with (directory / "lock").open("w") as lock:
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, _, error = ask(command, run_dir=tmp_path)

    assert (status, error.count("\n")) == (PROBLEM_FOUND, 1)
    assert f"the server with pid {os.getpid()} does not answer at {directory}/manage.sock" in error

# SPDX-License-Identifier: Apache-2.0
"""``servekit doctor`` of this machine, as a command."""

import fcntl
import io
import json
import os
import socket
import sys

import pytest

from servekit.cli import main
from servekit.cli.doctor import examination
from servekit.cli.doctor.listening import listening_on


@pytest.fixture
def doctor(capsys, monkeypatch, tmp_path):
    """Return ``doctor(*words)``: exit status, and the findings of each check, of settings alone."""
    monkeypatch.setattr(examination, "CHECKS", ())
    monkeypatch.setattr(examination, "check_plugins", lambda setup: ())

    def run(*words, run_dir=("--run-dir", str(tmp_path))):
        status = main(["doctor", "--json", *run_dir, *words])
        rows = json.loads(capsys.readouterr().out)["checks"]
        return status, {row["check"]: [each["text"] for each in row["findings"]] for row in rows}

    return run


def test_settings_that_are_fine(doctor):
    assert doctor("--port", "0") == (0, {"settings": [], "running server": []})


def test_a_terminal_shows_which_check_is_made(doctor, capsys, monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    doctor("--port", "0")

    assert shown.getvalue().split("\r")[1:] == [
        "settings ...\033[K", "running server ...\033[K", "\033[K",
    ]  # fmt: skip


def test_errors_of_the_settings_file_are_findings(doctor, tmp_path):
    (tmp_path / "servekit.toml").write_text("prot = 80\n")
    status, found = doctor("--config", str(tmp_path / "servekit.toml"))

    assert status == 2
    assert "unknown key 'prot'" in found["settings"][0]


def test_a_server_that_is_asked_for_and_does_not_run(capsys, tmp_path):
    assert main(["doctor", "--pid", "1", "--run-dir", str(tmp_path)]) == 1
    assert "no server with pid 1" in capsys.readouterr().err


@pytest.fixture
def run_directory(tmp_path):
    """Return ``make(pid)``: makes the run directory of a server that does not answer."""
    locks = []

    def make(pid):
        path = tmp_path / f"servekit-run-{pid}"
        path.mkdir(mode=0o700)
        locks.append((path / "lock").open("w"))
        locks[-1].write(str(pid))
        locks[-1].flush()
        fcntl.flock(locks[-1], fcntl.LOCK_EX)
        return path

    yield make
    for lock in locks:
        lock.close()


def test_a_server_that_does_not_answer_is_a_finding(doctor, run_directory):
    run_directory(os.getpid())
    status, found = doctor("--port", "0")

    assert status == 2
    (text,) = found["running server"]
    assert text.startswith(f"the server with pid {os.getpid()} does not answer")


def test_of_several_servers_one_must_be_chosen(doctor, run_directory):
    run_directory(os.getpid())
    run_directory(os.getppid())
    status, found = doctor("--port", "0")

    assert status == 2
    assert found["running server"][0].startswith("2 servers run here, choose one with --pid: ")


def test_the_server_is_found_by_the_run_directory_of_the_settings_file(
    doctor, run_directory, tmp_path
):
    path = run_directory(os.getpid())
    inner = tmp_path / "inner"
    inner.mkdir()
    path.rename(inner / path.name)
    (tmp_path / "servekit.toml").write_text('run_dir = "inner"\nport = 0\n')
    _, found = doctor("--config", str(tmp_path / "servekit.toml"), run_dir=())

    assert "does not answer" in found["running server"][0]


def test_what_a_process_listens_on(tmp_path):
    path = str(tmp_path / "s.sock")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as tcp6,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket() as silent,
    ):
        unix.bind(path)
        unix.listen()
        silent.bind(("127.0.0.1", 0))
        found = listening_on(os.getpid())
        ports = [each.getsockname()[1] for each in (tcp, tcp6, silent)]

    assert [port in found for port in ports] == [True, True, False]
    assert path in found
    assert not {*ports, path} & listening_on(os.getpid())

# SPDX-License-Identifier: Apache-2.0
"""What is known of a worker that ended though nobody wanted it to, and who is shown it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from servekit.ipc import crash_reports as crashes
from servekit.ipc.crash_reports import KEPT_REPORTS, CrashReport

from .conftest import WAIT_S, wait_until

pytestmark = pytest.mark.slow

SERVICE = """
import ctypes, os, signal, sys, time
from servekit import Service

DOES = {
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "exit": lambda: os._exit(3),
    "leave": sys.exit,
    "hang": lambda: time.sleep(60),
    "shot": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "cut": lambda: os.closerange(3, 1000),
}

class S(Service):
    def predict(self, batch):
        for act in batch:
            if act in DOES:
                print("about to", act)
                DOES[act]()
        return batch
"""


def report_of(server, model, count=1):
    """Wait for report *count* of *model* and return the newest."""
    (run_dir,) = server.run_dir.glob("servekit-run-*")

    def found():
        return [report for report in crashes.read_all(run_dir) if report.model == model]

    wait_until(lambda: len(found()) >= count, f"no report {count} of {model}")
    return found()[-1]


# ---------------------------------------------------------------- in the batch

QUICK, PATIENT = {"predict_timeout_s": 1}, {"predict_timeout_s": 60}


@pytest.fixture
def ask(start, model):
    """Start a real server of one model under several names; return it and what asks it."""

    def serve(*names):
        directories = [model(n, worker=QUICK if n == "hang" else PATIENT) for n in names]
        for directory in directories:
            (directory / "service.py").write_text(SERVICE)
        server = start(*directories, stand_ins={})
        port = int(server.wait_for("serving")["url"].rpartition(":")[2])
        return server, lambda name: post(port, f"/{name}/predict", name)

    return serve


def post(port, path, act):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    headers = {"Content-Type": "application/json", "X-Request-Id": f"id-of-{act}"}
    try:
        connection.request("POST", path, json.dumps(act), headers)
        return connection.getresponse().status
    finally:
        connection.close()


ENDS = {
    "segfault": (503, "SIGSEGV", -11, r"Segmentation fault in string_at \(__init__.py:\d+\)"),
    "abort": (503, "SIGABRT", -6, r"Aborted in \S+ \(service.py:\d+\)"),
    "exit": (503, "", 3, "exited with 3"),
    "leave": (500, "", 1, "its service called sys.exit"),
    "hang": (504, "SIGKILL", -9, "predict took longer than 1 s"),
    "shot": (503, "SIGKILL", -9, "killed from outside.*"),
    "cut": (503, "", 1, "exited with 1"),
}


@pytest.mark.e2e
def test_report_says_what_happened_to_whom(ask):
    server, predict = ask(*ENDS)
    for act, (status, signal_name, exit_code, cause) in ENDS.items():
        answered = predict(act)
        report = report_of(server, act)

        assert (act, answered) == (act, status)
        assert (act, report.signal, report.exit_code) == (act, signal_name, exit_code), report
        assert re.fullmatch(cause, report.cause), (act, report.cause)
        assert f"about to {act}" in report.last_lines
        assert (report.replica, report.generation, report.restart_s) == (0, 1, 0.0)
        assert report.served_s <= report.lived_s
    for act in ENDS.keys() - {"leave"}:  # its batch is answered before it leaves
        wait_until(lambda a=act: report_of(server, a).request_ids == [f"id-of-{a}"], act)


# ---------------------------------------------------------------- at load

LOADS = {
    "raises": "raise RuntimeError('no weights')",
    "exits": "import os; os._exit(3)",
    "segfaults": "import ctypes; ctypes.string_at(0)",
    "hangs": "import time; time.sleep(60)",
    "starves": "raise MemoryError('too large')",
}
CAUSES = {
    "raises": r"RuntimeError: no weights \(service.py:\d\)",
    "exits": "exited with 3",
    "segfaults": r"Segmentation fault in string_at \(__init__.py:\d+\)",
    "hangs": "not ready after 2 s",
    "starves": r"MemoryError: too large \(service.py:\d\)",
}


@pytest.mark.e2e
def test_report_says_why_a_model_cannot_be_loaded(start, model):
    limits = {"hangs": {"load_timeout_s": 2}}
    directories = [model(name, worker=limits.get(name, {})) for name in LOADS]
    for directory, code in zip(directories, LOADS.values(), strict=True):
        service = f"from servekit import Service\nclass S(Service):\n    {code}\n"
        (directory / "service.py").write_text(service)
    broken = model("broken")
    (broken / "model.toml").write_text('name = "broken"\n')
    server = start(model("good"), broken, *directories, stand_ins={})
    server.wait_for("serving")

    for name, cause in CAUSES.items():
        report = report_of(server, name)
        assert re.fullmatch(cause, report.cause), (name, report.cause)
        assert (report.served_s, report.restart_s >= 0.5) == (None, True)
    assert "service" in report_of(server, "broken").cause
    assert report_of(server, "broken").replica is None


# ---------------------------------------------------------------- the command


def crashes_command(run_dir, *arguments):
    command = [sys.executable, "-m", "servekit.cli", "crashes", "--run-dir", str(run_dir)]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def test_command_says_that_there_are_none(start, model, run_dir):
    start(model()).wait_for("serving")
    done = crashes_command(run_dir)

    assert (done.returncode, done.stdout) == (0, "no crashes\n")


def test_command_shows_reports_to_people_and_programs(start, model, run_dir):
    server = start(model("good"), model("bad", act="crash"))
    server.wait_for("serving")
    report_of(server, "bad")
    shown = crashes_command(run_dir, "--pid", str(server.process.pid)).stdout
    listed = json.loads(crashes_command(run_dir, "--json", "--model", "bad").stdout)

    assert "bad/0  exited with 7" in shown
    assert "  | no weights" in shown
    assert listed[0]["exit_code"] == 7
    assert crashes_command(run_dir, "--model", "good").stdout == "no crashes of good\n"


def test_command_needs_to_know_which_server(start, model, run_dir):
    none = crashes_command(run_dir)
    pids = []
    for name in ("one", "two"):
        server = start(model(name))
        server.wait_for("serving")
        pids.append(server.process.pid)
    several = crashes_command(run_dir)

    assert (none.returncode, several.returncode) == (1, 1)
    assert "no server of this user has its run directory in" in none.stderr
    assert all(f"{pid} ({run_dir}/servekit-run-" in several.stderr for pid in pids)
    assert crashes_command(run_dir, "--pid", str(pids[1])).stdout == "no crashes\n"


def test_the_dead_are_no_servers(start, model, run_dir):
    server = start(model())
    server.wait_for("serving")
    os.kill(server.process.pid, signal.SIGKILL)
    server.wait_exit()

    assert crashes_command(run_dir).returncode == 1


# ---------------------------------------------------------------- the files


@pytest.fixture
def report():
    return CrashReport(
        model="digits",
        replica=0,
        generation=1,
        pid=1,
        time="2026-01-01T00:00:00.000+00:00",
        monotonic_s=1.0,
        exit_code=1,
        signal="",
        cause="",
        lived_s=1.0,
        served_s=None,
        restart_s=None,
        has_given_up=False,
        request_ids=[],
        last_lines=[],
    )


def test_only_the_newest_reports_are_kept(tmp_path, report):
    for number in range(1, KEPT_REPORTS + 3):
        report.generation = number
        crashes.write(tmp_path, number, report)
    found = [read.generation for read in crashes.read_all(tmp_path)]

    assert found == list(range(3, KEPT_REPORTS + 3))
    assert len(list((tmp_path / "crashes").iterdir())) == KEPT_REPORTS


def test_server_without_reports_has_none(tmp_path):
    assert crashes.read_all(tmp_path) == []

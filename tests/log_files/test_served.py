# SPDX-License-Identifier: Apache-2.0
"""``--log-dir`` of a real server: a traceback, a disk that is full, a directory that vanishes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from servekit.testing.server import ServedModel
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WAIT_S = 60.0
SERVICE = """
from servekit import Service


class Talker(Service):
    def predict(self, inputs):
        for text in inputs:
            print(text, flush=True)
            if text == "fail":
                raise ValueError("no")
        return inputs
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "talker"
    path.mkdir()
    (path / "service.py").write_text(SERVICE)
    (path / "model.toml").write_text(
        'name = "talker"\nversion = "1.5"\nservice = "service:Talker"\n'
    )
    return path


def entries(path):
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")]


def find(path, **members):
    def look():
        if not path.exists():
            return []
        return [each for each in entries(path) if members.items() <= each.items()]

    return wait_until(look, f"a line with {members} in {path.name}")


def test_the_log_of_a_model_and_of_the_server(model, tmp_path):
    logs = tmp_path / "logs"
    with ServedModel(model, log_dir=str(logs)) as server:
        server.wait_ready()
        for text in ("hello", "fail"):
            say(server, text)
        of_model = logs / "model-talker.jsonl"
        (hello,) = find(of_model, message="hello")
        (failed,) = [each for each in find(of_model, level="error") if "traceback" in each]

        assert (hello["model"], hello["version"], hello["replica"]) == ("talker", "1.5", 0)
        assert "ValueError: no" in failed["traceback"]
        assert logs.stat().st_mode & 0o027 == 0

    (stopping,) = find(logs / "server.jsonl", event="stopping")
    assert stopping["subject"] == "servekit"


def test_a_directory_that_vanishes_and_a_writer_that_is_killed(model, tmp_path):
    logs = tmp_path / "logs"
    with ServedModel(model, log_dir=str(logs)) as server:
        server.wait_ready()
        find(logs / "server.jsonl", event="serving")
        shutil.rmtree(logs)
        say(server, "again")
        find(logs / "model-talker.jsonl", message="again")
        (pid,) = writers(server.process.pid)
        os.kill(pid, signal.SIGKILL)
        server.log.wait_for("log-files_exited")
        say(server, "later")

        find(logs / "model-talker.jsonl", message="later")


def test_two_servers_cannot_share_a_directory(model, tmp_path):
    logs = tmp_path / "logs"
    with ServedModel(model, log_dir=str(logs)) as server:
        server.wait_ready()
        words = ["start", str(model), "--port", "0", "--log-dir", str(logs)]
        done = subprocess.run(
            [sys.executable, "-m", "servekit", *words],
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (
        3, f"servekit: log_dir: {logs}: another server writes there\n",
    )  # fmt: skip


def test_a_server_that_is_killed_leaves_its_last_lines(model, tmp_path):
    logs = tmp_path / "logs"
    with ServedModel(model, log_dir=str(logs)) as server:
        server.wait_ready()
        (pid,) = writers(server.process.pid)
        os.kill(pid, signal.SIGSTOP)
        say(server, "last words")
        server.log.wait_for("output", message="last words")
        server.process.kill()
        os.kill(pid, signal.SIGCONT)

    find(logs / "model-talker.jsonl", message="last words")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk_loses_lines_and_nothing_else(model, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", logs], check=False)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with ServedModel(model, log_dir=str(logs)) as server:
            server.wait_ready()
            filling = logs / "filling"
            filling.write_bytes(b"x" * 100)
            with suppress(OSError), filling.open("ab", buffering=0) as file:
                for _ in range(100):
                    file.write(b"x" * 4096)
            answers = [say(server, "x" * 4000).status for _ in range(20)]
            server.log.wait_for("output", subject="log-files")
            filling.unlink()
            say(server, "room")
            find(logs / "model-talker.jsonl", message="room")
            (lost,) = find(logs / "model-talker.jsonl", event="lines_lost")
    finally:
        subprocess.run(["umount", "-l", logs], check=True)

    assert answers == [200] * 20
    assert int(lost["message"].rpartition(" ")[2]) > 0


def test_a_writer_that_is_stuck_delays_nothing(model, tmp_path):
    logs = tmp_path / "logs"
    with ServedModel(model, log_dir=str(logs)) as server:
        server.wait_ready()
        (pid,) = writers(server.process.pid)
        os.kill(pid, signal.SIGSTOP)
        lines = "\n".join(["x" * 4000] * 900)
        answers, until = [], monotonic() + 3.0  # a worker can print 1000 lines each second
        while monotonic() < until or len(answers) < 4:  # more than the supervisor keeps
            answers.append(say(server, lines).status)
        started_at = monotonic()
        answers.append(say(server, "short").status)
        took_s = monotonic() - started_at
        os.kill(pid, signal.SIGCONT)
        wait_until(
            lambda: say(server, "later") and has(logs / "server.jsonl", "lines_lost"),
            "the lines that were lost are logged",
        )
        find(logs / "model-talker.jsonl", message="later")

    assert set(answers) == {200}
    assert took_s < WAIT_S  # it would take as long as the writer is stuck


def test_following_continues_with_the_next_server(model, tmp_path):
    words = [sys.executable, "-m", "servekit", "logs", "talker", "-f", "--run-dir", str(tmp_path)]
    with ServedModel(model, run_dir=str(tmp_path)) as server:
        server.wait_ready()
        follower = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        say(server, "first")
        wait_for_line(follower.stdout, "talker/0 | first")
    with ServedModel(model, run_dir=str(tmp_path)) as server:
        server.wait_ready()
        say(server, "second")
        wait_for_line(follower.stdout, "talker/0 | second")
    follower.send_signal(signal.SIGINT)
    _, error = follower.communicate(timeout=WAIT_S)

    assert follower.returncode == 0
    assert error.endswith("waiting for a server\n")


def has(path, event):
    return any(each["event"] == event for each in entries(path))


def wait_for_line(stream, text):
    """Read lines until one ends with *text*; the test has a deadline."""
    for line in stream:
        if line.endswith(f"{text}\n"):
            return
    raise AssertionError(f"{text!r} did not come")


def say(server, text):
    """Have the service print *text*."""
    return server.post("/talker/predict", json.dumps(text).encode())


def writers(parent):
    """Return the pids of the processes that write log files for the server *parent*."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, line in lines.items() if b"servekit.log_files" in line]

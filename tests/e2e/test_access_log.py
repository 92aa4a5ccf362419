# SPDX-License-Identifier: Apache-2.0
"""The access log of a real server, and its rotation."""

import json
import signal
from pathlib import Path

import pytest

from tests.waiting import wait_until

SUMS = Path(__file__).parent / "models" / "sums"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_log_that_is_moved_away_is_begun_anew_at_a_hangup(serve, tmp_path):
    log, old = tmp_path / "access.jsonl", tmp_path / "access.jsonl.1"
    server = serve("--models", SUMS, "--access-log", log)
    server.post("/sums/predict", b"[1, 2]")
    wait_until(log.read_text, "the first line")
    log.rename(old)
    server.process.send_signal(signal.SIGHUP)
    wait_until(log.exists, "the new file")
    first = json.loads(old.read_text().splitlines()[0])

    assert (first["method"], first["path"]) == ("POST", "/sums/predict")
    server.get("/ping/live")
    wait_until(
        lambda: "/ping/live" in log.read_text() + old.read_text(), "a line of one of the two"
    )


def test_requests_of_commands_are_not_logged(serve, run, tmp_path):
    log = tmp_path / "access.jsonl"
    server = serve("--models", SUMS, "--access-log", log, "--run-dir", tmp_path)
    assert run("servekit", "status", "--run-dir", tmp_path).returncode == 0
    server.get("/ping/live")
    wait_until(lambda: "/ping/live" in log.read_text(), "a line")
    paths = {json.loads(line)["path"] for line in log.read_text().splitlines()}

    assert not paths & {"/models", "/operations", "/console/samples"}


def test_log_that_cannot_be_opened_ends_the_start(run, tmp_path):
    done = run("servekit", "start", SUMS, "--port", "0", "--access-log", tmp_path)

    assert done.returncode == 3
    assert "access_log" in done.stderr
    assert "Traceback" not in done.stderr

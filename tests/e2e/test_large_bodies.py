# SPDX-License-Identifier: Apache-2.0
"""Large bodies through the real server: right answers, and no memory left behind by any death."""

import contextlib
import http.client
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import monotonic

import numpy as np
import pytest

from tests.waiting import wait_for_value, wait_until

from .conftest import WAIT_S

MODELS = Path(__file__).parent / "models"
RAW = "application/octet-stream"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def arenas(server) -> list[int]:
    """Return the bytes of memory of every arena in the server's processes."""
    found = {}
    for pid in server.tree():
        with contextlib.suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if "servekit-arena" in str(fd.readlink()):
                        status = fd.stat()
                        found[status.st_ino] = status.st_blocks * 512
    return list(found.values())


def body_of(number: int) -> bytes:
    return np.full(50_000 + number * 1000, number, np.float32).tobytes()


def ask(connection, number):
    """Return the status, and whether a 200 came with the right sum."""
    body = body_of(number)
    connection.request("POST", "/sums/predict", body, {"Content-Type": RAW})
    answer = connection.getresponse()
    text = answer.read()
    expected = b'{"prediction":%d.0}' % (number * len(body) // 4)
    return answer.status, answer.status != 200 or text == expected


def client(server, number, seen, is_over):
    """Ask until *is_over*, and at least once; count in *seen* by status."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    while True:
        try:
            status, is_right = ask(connection, number)
            assert is_right
        except (OSError, http.client.HTTPException):  # our front-end was killed
            status = 0
            connection.close()
        seen[status] += 1
        if is_over():
            break
    connection.close()


def kill_one(server, victim):
    """Kill the last process of a kind, and return when the server is healthy again."""
    pids = [pid for pid in server.tree() if victim in _command(pid)]
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[-1], signal.SIGKILL)
    wait_until(
        lambda: not set(pids) & set(server.tree()[1:]) or len(pids) > 1, "the victim is gone"
    )
    wait_until(lambda: server.get("/ping")[0] == 200, "the server is healthy again")


@pytest.mark.parametrize(
    ("victim", "allowed"),
    [
        pytest.param(b"servekit.worker", {200, 503}, id="worker"),
        pytest.param(b"servekit.frontend", {200, 503, 0}, id="front-end"),
    ],
)
def test_kill_at_any_moment_leaves_no_memory_behind(serve, victim, allowed):
    server = serve("--models", MODELS / "sums", "--arena=1MiB")
    client(server, 1, Counter(), lambda: True)  # front-end and worker have met
    before, seen = len(arenas(server)), Counter()
    until, is_over = monotonic() + 1.5, Event()
    with ThreadPoolExecutor(6) as pool:
        how = [(server, number, seen, is_over.is_set) for number in range(1, 7)]
        clients = [pool.submit(client, *each) for each in how]
        try:
            while monotonic() < until:
                kill_one(server, victim)
            answered = seen[200]
            wait_until(lambda: seen[200] > answered + 20, "requests go on")
        finally:
            is_over.set()
    for each in clients:
        each.result()

    assert set(seen) <= allowed
    wait_for_value(lambda: len(arenas(server)), before, "arenas, when those of the dead are gone")
    wait_for_value(lambda: sum(arenas(server)), 0, "bytes in the arenas")


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_large_answer(serve):
    server = serve("--models", MODELS / "sums")
    status, _, answer = server.post(
        "/sums/predict", np.full(300_000, 2.0, "float32").tobytes(), RAW, Accept="application/x-npy"
    )

    assert status == 200
    assert len(answer) < 200

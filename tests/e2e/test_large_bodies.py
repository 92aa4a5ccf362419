# SPDX-License-Identifier: Apache-2.0
"""Large bodies through the real server: right answers, and no memory left behind by any death."""

import contextlib
import http.client
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from tests.waiting import wait_until

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


def client(server, number, until):
    seen = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    while monotonic() < until:
        try:
            status, is_right = ask(connection, number)
            assert is_right
        except (OSError, http.client.HTTPException):  # our front-end was killed
            status = 0
            connection.close()
        seen[status] += 1
    connection.close()
    return seen


@pytest.mark.parametrize(
    ("victim", "allowed"),
    [
        pytest.param(b"servekit.worker", {200, 503}, id="worker"),
        pytest.param(b"servekit.frontend", {200, 503, 0}, id="front-end"),
    ],
)
def test_kill_at_any_moment_leaves_no_memory_behind(serve, victim, allowed):
    server = serve("--models", MODELS / "sums", "--arena=1MiB")
    assert client(server, 1, monotonic() + 0.1)[200]  # front-end and worker have met
    before = len(arenas(server))
    until = monotonic() + 3.0
    with ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(client, server, number, until) for number in range(1, 7)]
        while monotonic() < until - 1.5:
            pids = [pid for pid in server.tree() if victim in _command(pid)]
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[-1], signal.SIGKILL)
            wait_until(
                lambda gone=pids: not set(gone) & set(server.tree()[1:]) or len(gone) > 1,
                "the victim is gone",
            )
            wait_until(lambda: server.get("/ping")[0] == 200, "the server is healthy again")
        seen = sum((each.result() for each in clients), Counter())

    assert set(seen) <= allowed
    assert seen[200] > 20
    wait_until(lambda: len(arenas(server)) == before, "every arena of a dead process is gone")
    wait_until(lambda: sum(arenas(server)) == 0, "the arenas are empty")


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

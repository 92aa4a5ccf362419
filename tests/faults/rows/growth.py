# SPDX-License-Identifier: Apache-2.0
"""What a long life adds up to."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.client import Client
from tests.faults.figures import Figure, at_most, equal, none
from tests.faults.requests import Shot, get, post, predict
from tests.faults.stage import LARGE, MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.served import Served
    from tests.faults.stage import Stage

WORK = MODELS / "work"
MIB = 2**20
RATE = 2500.0  #: requests/s, what this client can send beside a server on two cores
BAD = [
    (post("/work/predict", b"{nonsense"), 400),
    (post("/work/predict", b"x", "application/x-nothing"), 415),
    (post("/nobody/predict", b"{}"), 404),
    (get("/work/predict"), 405),
    (post("/work/predict", b"[" * 1000), 400),
]
CHUNKS = 1_000_000
FLOOD = (
    b"POST /work/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nA\r\n" * CHUNKS + b"0\r\n\r\n"
)


def growth(stage: Stage) -> Iterator[Figure]:
    """No request leaves anything behind: not a good one, a bad one, or one that was given up.

    Mixed requests at a fixed rate, a tenth bad, a twentieth given up by their client, some large;
    a fifth of them warm up, then memory is compared. Then bodies of a million chunks.
    """
    total = stage.count(100_000, 3_000)
    floods = stage.count(20, 1)
    with stage.server("--models", WORK, "--replicas=2") as server:
        chance = random.Random(12)
        Client(server.port, 64).run(_mixed(total // 5, chance, "warm"))
        _flood(server)
        before = _memory(server)
        ledger = Client(server.port, 64).run(_mixed(total, chance, "F12"))
        between = _memory(server)
        answers = [_flood(server) for _ in range(floods)]
        after = _memory(server)
    yield none(f"resets and hangs of {total:,} requests", ledger.lost())
    yield none("wrong answers", ledger.wrong())
    yield none("good ones with another status", ledger.of("good").other_than({200}))
    for status in sorted({status for _, status in BAD}):
        bad = ledger.of(f"bad {status}")
        yield none(f"bad ones with other than {status}", bad.other_than({status}))
    for role, used in between.items():
        yield at_most(f"memory of {role}", (used - before[role]) / MIB, 5, "MiB more")
    yield equal(f"200s for bodies of {CHUNKS:,} chunks", answers.count(200), floods)
    for role in ("front-end", "supervisor"):
        yield at_most(f"{role}, after them", (after[role] - between[role]) / MIB, 1, "MiB more")


def _mixed(total: int, chance: random.Random, name: str) -> Iterator[Shot]:
    for number in range(total):
        at, dice = number / RATE, chance.random()
        if dice < 0.10:
            wire, status = BAD[number % len(BAD)]
            yield Shot(id=f"{name}-{number}", wire=wire, kind=f"bad {status}", at=at)
        elif dice < 0.11:
            large = post("/work/predict", LARGE, "application/octet-stream")
            yield Shot(id=f"{name}-{number}", wire=large, at=at)
        else:
            shot = predict("work", f"{name}-{number}", {"seconds": 0}, at=at)
            yield shot.leaving(chance.random() / 1000) if dice < 0.16 else shot


def _memory(server: Served) -> dict[str, int]:
    """Return the largest resident memory of each role."""
    used: dict[str, int] = {}
    for process in server.processes():
        used[process.role] = max(used.get(process.role, 0), procfs.rss_bytes(process.pid))
    return used


def _flood(server: Served) -> int:
    """Send a body of a million chunks of one byte and return the status."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as sock:
        sock.sendall(FLOOD)
        answer = sock.recv(4096)
    return int(answer[9:12] or 0)

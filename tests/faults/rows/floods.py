# SPDX-License-Identifier: Apache-2.0
"""One client of HTTP/2 that sends what costs it nothing and the server something."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.benchmarks.environments import ROOT
from tests.faults.client import Client
from tests.faults.figures import Figure, at_most, none
from tests.faults.flooding import FLOODS
from tests.faults.requests import pings
from tests.faults.served import WAIT_S
from tests.faults.stage import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.ledger import Ledger
    from tests.faults.served import Served
    from tests.faults.stage import Stage

RATE = 100.0
LIMIT_MS = 30.0
SHORT = ("HEADERS of 3,900 one-letter fields", "DATA of one byte", "PING")


def floods(stage: Stage) -> Iterator[Figure]:
    """A flood of HTTP/2 frames does not delay other clients.

    One client sends as much of one kind as the server takes, and begins anew when its connection
    is ended; the others ask for /ping, 100 times a second. The first client of HTTP/2 has its
    library loaded, once in the life of a front-end: that is shown by itself, and not judged.
    """
    seconds, kinds = stage.count(3.0, 0.5), stage.count(tuple(FLOODS), SHORT)
    with stage.server("--models", MODELS / "work") as server:
        calm = Client(server.port, 32).run(pings(RATE, seconds))
        yield at_most(
            "calm, /ping p99", calm.latency_ms(99, 200), stage.bound(LIMIT_MS, "ms"), "ms"
        )
        first = _with_flood(server, "PING", 0.5).latency_ms(99, 200)
        stage.say(f"the first client of HTTP/2: /ping p99 {first:.1f} ms")
        for kind in kinds:
            ledger = _with_flood(server, kind, seconds)
            p99 = ledger.latency_ms(99, 200)
            stage.say(f"{kind}: p50 {ledger.latency_ms(50, 200):.1f} ms, p99 {p99:.1f} ms")
            yield at_most(f"{kind}, /ping p99", p99, stage.bound(LIMIT_MS, "ms"), "ms")
            yield none(f"{kind}, other than 200", ledger.other_than({200}) + ledger.lost())


def _with_flood(server: Served, kind: str, seconds: float) -> Ledger:
    with flooding(server.port, kind):
        return Client(server.port, 32).run(pings(RATE, seconds))


@contextmanager
def flooding(port: int, kind: str) -> Iterator[None]:
    """Flood meanwhile."""
    command = [sys.executable, "-m", "tests.faults.flooding", str(port), kind]
    flood = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert flood.stdout is not None
    try:
        assert flood.stdout.readline() == b"flooding\n", "nothing was sent"
        yield
        assert json.loads(flood.communicate(b"\n", WAIT_S)[0])["sent"]
    finally:
        flood.kill()
        flood.wait()

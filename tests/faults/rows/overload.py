# SPDX-License-Identifier: Apache-2.0
"""Ten times more requests than a model can answer."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.client import Action, Client
from tests.faults.figures import Figure, at_least, at_most, none
from tests.faults.requests import Shot, pings, predict, steady
from tests.faults.stage import MODELS, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.ledger import Ledger, Line
    from tests.faults.served import Served
    from tests.faults.stage import Stage

WORK = MODELS / "work"
NORMAL = 40.0  #: requests/s, half of what one worker can do
FULL = 80.0
OVERLOAD = 800.0
QUEUE = 64
BATCH_S = 0.05
MIB = 2**20
PATIENCE_S = 0.3  #: of those that set a deadline
SLACK_S = 0.1  #: from a client's leaving to its request's


def overload(stage: Stage) -> Iterator[Figure]:
    """Ten times too many requests cost no goodput, are refused at once, and leave nothing behind.

    One worker that does 80 requests/s is sent 800/s with a queue of 64; a tenth set a deadline of
    0.3 s and a tenth of the clients leave after 0.3 s. The service tells at the end what it ran.
    """
    seconds, calm_s = stage.count(20.0, 1.5), stage.count(4.0, 1.0)
    with stage.server("--models", WORK, f"--queue={QUEUE}") as server:
        before = Client(server.port, 64).run(steady("work", NORMAL, calm_s, "before"))
        full = Client(server.port, 256).run(steady("work", FULL * 1.2, calm_s, "full"))
        front_end = server.pid_of("front-end")
        idle_bytes = procfs.rss_bytes(front_end)
        ledger, highest = _flood(server, front_end, seconds)
        after = Client(server.port, 64).run(steady("work", NORMAL, 2 + calm_s, "after"))
        ran = json.loads(ask(server, predict("work", "list", {"list": True})).body)
    yield from judge(stage, ledger, seconds, peak=_goodput(full, 0.5, calm_s))
    slack_s = stage.bound(SLACK_S)
    late_s = stage.count(0.0, slack_s)
    found = for_nobody(ledger, ran["prediction"]["ran"], slack_s, late_s)
    yield none("predictions run for nobody", found)
    yield at_most("memory of the front-end", (highest - idle_bytes) / MIB, 64, "MiB more")
    late = after.between(after.lines[0].due + 2, float("inf"))
    bound = stage.bound(1.2 * before.latency_ms(50, 200), "ms")
    yield at_most("p50 two seconds after", late.latency_ms(50, 200), bound, "ms")


def _flood(server: Served, front_end: int, seconds: float) -> tuple[Ledger, int]:
    memory: list[int] = []
    watch = [
        Action(n / 5, lambda: memory.append(procfs.rss_bytes(front_end)))
        for n in range(round(seconds * 5) + 2)
    ]
    chance = random.Random(5)
    shots = [_some_leave(shot, chance.random()) for shot in _shots(seconds, chance)]
    ledger = Client(server.port, 1024).run(
        [*shots, *pings(10, seconds, server.subject.ping_path)], watch
    )
    return ledger, max(memory)


def _shots(seconds: float, chance: random.Random) -> Iterator[Shot]:
    for number in range(round(OVERLOAD * seconds)):
        extra = {"X_Request_Timeout_Ms": "300"} if chance.random() < 0.1 else {}
        at = number / OVERLOAD
        yield predict("work", f"F5-{number}", at=at, headers=extra)


def _some_leave(shot: Shot, chance: float) -> Shot:
    return shot.leaving(PATIENCE_S) if chance < 0.1 else shot


def _goodput(ledger: Ledger, begin: float, end: float) -> float:
    """Return the 200s per second between two moments of the run."""
    start = ledger.lines[0].due
    ends = [line.ended - start for line in ledger.answered(200)]
    return sum(begin <= moment < end for moment in ends) / (end - begin)


def judge(stage: Stage, ledger: Ledger, seconds: float, peak: float) -> Iterator[Figure]:
    """Judge what the clients saw."""
    good = ledger.of("good")
    if stage.is_short:  # too short for a rate, on a machine that others use
        yield at_least("200s", len(good.answered(200)), 1)
    else:
        yield at_least("goodput, of its peak", 100 * _goodput(good, 0.5, seconds) / peak, 90, "%")
    yield none("other than 200, 429, 504", good.other_than({200, 429, 504}))
    yield none("resets, hangs, wrong answers", ledger.lost() + ledger.wrong())
    yield at_most("429, p50", good.latency_ms(50, 429), stage.bound(10, "ms"), "ms")
    yield at_most("429, p99", good.latency_ms(99, 429), stage.bound(100, "ms"), "ms")
    bound = stage.bound(1000 * (QUEUE / FULL + BATCH_S) * 1.2, "ms")
    yield at_most("200, p99", good.latency_ms(99, 200), bound, "ms")
    ping_ms = ledger.of("ping").latency_ms(99, 200)
    yield at_most("/ping, p99", ping_ms, stage.bound(100, "ms"), "ms")
    yield none("other than 200 from /ping", ledger.of("ping").other_than({200}))


def for_nobody(
    ledger: Ledger, ran: list[tuple[str, float]], slack_s: float = SLACK_S, late_s: float = 0.0
) -> list[Line]:
    """Return the requests that ran although they had been answered, or their client had left.

    :param late_s: how long a worker that has got a batch in time may take to begin with it.
    """
    began = dict(ran)
    return [
        line
        for line in ledger
        if (line.end == "left" and began.get(line.id, 0) > line.ended + slack_s)
        or (line.status in {429, 504} and began.get(line.id, 0) > line.ended + late_s)
    ]

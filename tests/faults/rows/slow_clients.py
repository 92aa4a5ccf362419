# SPDX-License-Identifier: Apache-2.0
"""Thousands of clients that take for ever."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.client import Action, Client
from tests.faults.figures import Figure, at_least, at_most, none
from tests.faults.requests import steady
from tests.faults.served import NotAsExpected, wait_until
from tests.faults.slow_crowd import slow_crowd
from tests.faults.stage import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.ledger import Ledger
    from tests.faults.served import Served
    from tests.faults.stage import Stage

RATE = 50.0
ITEM = {"seconds": 0.01}
KIB, MIB = 2**10, 2**20
TIMEOUTS = ("header", "body", "send")


def slow_clients(stage: Stage) -> Iterator[Figure]:
    """Slow clients do not affect others, cost little memory, and are gone after their timeout.

    900 send a header line a second, 900 a byte of body a second, 200 ask for 256 KiB and stop
    reading; each that is ended comes again. Meanwhile 50 good requests/s of 10 ms. All timeouts
    are 5 s, as by default but that of readers.
    """
    timeout_s = stage.count(5, 3)
    timeouts = [f"--{name}-timeout={timeout_s}" for name in TIMEOUTS]
    seconds = stage.count(20.0, 6.0)
    crowd = stage.count((900, 900, 200), (90, 90, 20))
    with stage.server("--models", MODELS / "work", *timeouts) as server:
        idle = Client(server.port, 32).run(
            steady("work", RATE, stage.count(10, 2), "idle", item=ITEM)
        )
        front_end = server.pid_of("front-end")
        before, memory = _descriptors(front_end), procfs.rss_bytes(front_end)
        good, held, highest, seen, gone_s = _with_crowd(stage, server, crowd, seconds)
    yield at_least("slow connections held", held - before, sum(crowd) * 0.95)
    yield none("other than 200 for the others", good.other_than({200}) + good.lost() + good.wrong())
    bound = stage.bound(2 * idle.latency_ms(99, 200), "ms")
    yield at_most("their p99, idle twice over", good.latency_ms(99, 200), bound, "ms")
    more = highest - memory
    yield at_most("memory for a slow connection", more / KIB / max(1, held - before), 100, "KiB")
    yield at_most("memory for all", more / MIB, 150, "MiB")
    yield at_most("the last is gone after", gone_s, timeout_s + stage.bound(1), "s")
    kinds = {kind: counts for kind, counts in seen["statuses"].items() if kind != "readers"}
    wrong = [(kind, counts) for kind, counts in kinds.items() if set(counts) != {"408"}]
    yield none("other than 408 for slow headers and bodies", wrong)
    for kind, longest_s in seen["longest_s"].items():
        bound = timeout_s + stage.bound(1)
        yield at_most(f"longest held, slow {kind}", longest_s, bound, "s")


def _with_crowd(
    stage: Stage, server: Served, crowd: tuple[int, ...], seconds: float
) -> tuple[Ledger, int, int, dict[str, dict[str, float]], float]:
    front_end = server.pid_of("front-end")
    before = _descriptors(front_end)
    memory, held = [0], [0]

    def look() -> None:
        memory.append(procfs.rss_bytes(front_end))
        held.append(_descriptors(front_end))

    counts = dict(zip(("headers", "bodies", "readers"), crowd, strict=True))
    with slow_crowd(server.port, seconds, counts) as slow:
        if stage.is_short:  # the process may take longer to start than the good clients have
            slow.wait_open()
        shots = steady("work", RATE, stage.count(seconds, 4.0), "F6", item=ITEM)
        looks = [Action(n + 0.9, look) for n in range(stage.count(round(seconds), 4))]
        good = Client(server.port, 32).run(shots, looks)
        slow.wait_stopped()
        stopped = monotonic()
        gone_s = math.inf
        with suppress(NotAsExpected):
            wait_until(lambda: _descriptors(front_end) <= before, "slow clients are gone", 60)
            gone_s = monotonic() - stopped
        return good, max(held), max(memory), slow.seen(), gone_s


def _descriptors(pid: int) -> int:
    """Count them, without a look at each: that takes so long that the good clients would notice."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - in a fraction of the time

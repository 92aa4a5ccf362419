# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed or stopped from outside."""

from __future__ import annotations

import signal
from itertools import count
from typing import TYPE_CHECKING

from tests.faults.client import Action, Client
from tests.faults.figures import Figure, at_least, at_most, none
from tests.faults.ledger import Ledger, percentile
from tests.faults.requests import predict, steady
from tests.faults.stage import HANG_S, MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.faults.served import Served
    from tests.faults.stage import Stage

WORK = MODELS / "work"
BATCH = 4  #: of the model
RATE = 60.0  #: of the 80 requests/s that one worker can do
INSIDE_S = 20.0  #: of a request that is not answered before its worker is killed


def kills_under_load(stage: Stage) -> Iterator[Figure]:
    """Workers are killed under load: every request gets a 200 or 503, and its own response.

    Two replicas, one SIGKILL a second to each in turn, 60 requests/s over 16 connections.
    """
    kills = stage.count(30, 2)
    with stage.server("--models", WORK, "--replicas=2") as server:
        ledger, killed = run_with_kills(server, kills)
    yield from judge_kills(ledger, killed)


def run_with_kills(
    server: Served, kills: int, actions: Sequence[Action] = ()
) -> tuple[Ledger, int]:
    """Kill a worker each second under load; return the ledger and how many were killed."""
    turn, killed = count(), []

    def kill() -> None:
        workers = server.pids("worker")
        if workers:
            killed.append(server.kill(workers[next(turn) % len(workers)]))

    shots = steady("work", RATE, kills + 1, "F1")
    ledger = Client(server.port, 16).run(
        shots, [*actions, *(Action(n + 0.5, kill) for n in range(kills))]
    )
    return ledger, len(killed)


def judge_kills(ledger: Ledger, killed: int) -> Iterator[Figure]:
    """Say whether nothing was lost but the batches that the killed workers held."""
    yield at_least(f"workers killed, {len(ledger)} requests", killed, len(ledger) / RATE - 2)
    yield none("resets and hangs", ledger.lost())
    yield none("wrong answers", ledger.wrong())
    yield none("statuses other than 200 and 503", ledger.other_than({200, 503}))
    yield at_most("503s", len(ledger.answered(503)), killed * BATCH)


def death_and_replacement(stage: Stage) -> Iterator[Figure]:
    """When a worker dies, its clients get a 503 at once, and a new worker serves soon.

    One replica holds a request of 20 s when it is killed; another request comes 20 ms later.
    """
    lost_s, back_s, ledgers = [], [], []
    with stage.server("--models", WORK) as server:
        for number in range(stage.count(50, 2)):
            ledger, killed = _kill_one(server, number, stage.path(f"begun-{number}"))
            inside, after = ledger.lines
            ledgers += ledger.lines
            lost_s.append(inside.ended - killed)
            back_s.append(after.ended - killed)
    inside = Ledger(ledgers).of("inside")
    yield none("other than 503 for the batch inside", inside.other_than({503}) + inside.lost())
    lost_ms = 1000 * percentile(sorted(lost_s), 99)
    yield at_most("death to 503, p99", lost_ms, stage.bound(100, "ms"), "ms")
    later = Ledger(ledgers).of("later")
    yield none("other than 200 for later requests", later.other_than({200}) + later.lost())
    back_p99_s = percentile(sorted(back_s), 99)
    yield at_most("death to the replacement's answer, p99", back_p99_s, stage.bound(1), "s")


def _kill_one(server: Served, number: int, begun: Path) -> tuple[Ledger, float]:
    killed: list[float] = []
    pid = server.pid_of("worker")
    inside = {"seconds": INSIDE_S, "begun": str(begun)}
    shots = [
        predict("work", f"F2-{number}", inside, kind="inside"),
        predict(
            "work",
            f"F3-{number}",
            {"seconds": 0},
            kind="later",
            at=0.22,
            once=lambda _: bool(killed),
        ),
    ]
    kill = Action(0.2, lambda: killed.append(server.kill(pid)), once=lambda _: begun.exists())
    return Client(server.port, 2).run(shots, [kill]), killed[0]


def hangs(stage: Stage) -> Iterator[Figure]:
    """When a worker hangs, its clients get a 504 in time, and the worker is replaced.

    SIGSTOP while it holds a request; ``--predict-timeout 0.5``; probed every 50 ms after it.
    """
    late_s, back_s, ledgers = [], [], []
    timeout_s = stage.count(0.5, 3.0)
    with stage.server("--models", WORK, f"--predict-timeout={timeout_s}") as server:
        for number in range(stage.count(20, 2)):
            ledger = _stop_one(server, number, timeout_s, stage.count(3.0, HANG_S))
            inside, probes = ledger.of("inside").lines[0], ledger.of("probe").answered(200)
            ledgers += ledger.lines
            late_s.append(inside.ended - inside.sent - timeout_s)
            back_s.append(probes[0].ended - inside.ended if probes else float("nan"))
    everything = Ledger(ledgers)
    inside = everything.of("inside")
    yield none("other than 504 for the batch inside", inside.other_than({504}) + inside.lost())
    late_ms = 1000 * percentile(sorted(late_s), 99)
    yield at_most("504 after the timeout, p99", late_ms, stage.bound(250, "ms"), "ms")
    yield at_most("504 to the replacement's answer, worst", max(back_s), stage.bound(1), "s")
    yield none("resets and wrong answers", everything.lost() + everything.wrong())


def _stop_one(server: Served, number: int, timeout_s: float, probe_s: float) -> Ledger:
    """Stop a worker whose batch would end in time, and ask for its model until it answers."""
    pid = server.pid_of("worker")
    shots = [predict("work", f"F4-{number}", {"seconds": 0.9 * timeout_s}, kind="inside")]
    begin, probe = timeout_s + 0.05, f"F4-{number}-probe"
    shots += steady("work", 20, probe_s, probe, begin, kind="probe", item={"seconds": 0})
    stop = Action(0.1, lambda: server.kill(pid, signal.SIGSTOP))
    return Client(server.port, 8).run(
        shots, [stop], until=lambda ledger: bool(ledger.of("probe").answered(200))
    )

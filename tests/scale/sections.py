# SPDX-License-Identifier: Apache-2.0
"""The measurements: each grows one thing tenfold, and returns one part of the report."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from tests.benchmarks.errors import NotReady
from tests.benchmarks.processes import wait_until
from tests.scale.bulk import bulk
from tests.scale.cost import Cost, cost_of
from tests.scale.exposition import scrape, total
from tests.scale.flock import Flock, post
from tests.scale.queue_alone import queue_alone
from tests.scale.subject import HELD, SUM, Subject, started
from tests.scale.table import table

COST: Final = ("requests/s", "front-end", "workers", "all")
WAIT_S: Final = 60.0
__all__ = ["Plan", "bulk", "connections", "front_ends", "models", "queue", "waiting"]


class Plan(NamedTuple):
    """How long to measure, and how far to grow."""

    rounds: int = 3
    seconds: int = 2
    models: tuple[int, ...] = (1, 10, 100)
    connections: tuple[int, ...] = (10, 100, 1_000, 10_000)
    waiting: tuple[int, ...] = (100, 1_000, 10_000)
    queue: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    front_ends: tuple[int, ...] = (1, 2, 4)
    bulk: tuple[tuple[int, int], ...] = ((1, 1), (1, 10), (10, 10), (20, 30), (100, 10))


def cost(subject: Subject, plan: Plan, *paths: str) -> Cost:
    return cost_of(subject, paths, rounds=plan.rounds, seconds=plan.seconds)


def models(plan: Plan, progress: Callable[[str], None]) -> str:
    """Small models: start-up, memory, and the cost of asking one or all of them."""
    rows = []
    for count in plan.models:
        progress(f"models: {count}")
        names = [f"m{number}" for number in range(count)]
        begun = monotonic()
        with started(*(f"{name}={SUM}" for name in names)) as subject:
            start_s, start_cpu_s = monotonic() - begun, subject.cpu_s()["all"]
            memory = subject.pss_bytes()
            idle_ms = idle_cpu(subject)
            one = cost(subject, plan, "/m0/predict")
            every = cost(subject, plan, *(f"/{name}/predict" for name in names))
        sizes = [memory[role] / 1e6 for role in ("supervisor", "front-end")]
        workers = memory["workers"] / count / 1e6
        rows.append(
            [count, start_s, start_cpu_s, *sizes, workers, idle_ms, one.front_end_ms, one.all_ms]
        )
        rows[-1] += [every.front_end_ms, every.all_ms]
    return table(
        (
            *(
                "models",
                "start s",
                "CPU s of it",
                "supervisor MB",
                "front-ends MB",
                "MB per worker",
            ),
            *("idle CPU ms/s", "one: front-end", "one: all", "in turn: front-end"),
            "in turn: all",
        ),
        rows,
    )


def idle_cpu(subject: Subject) -> float:
    """Return the CPU ms that the server uses in a second without requests."""
    pause_s, before = 4.0, subject.cpu_s()["all"]
    wait_until(lambda: False, seconds=pause_s, every=pause_s)
    return (subject.cpu_s()["all"] - before) * 1e3 / pause_s


def connections(plan: Plan, progress: Callable[[str], None]) -> str:
    """Idle keep-alive connections: memory of each, and the cost of a request beside them."""
    rows = []
    room = f"--queue={max(plan.connections)}"  # they are all asked at once
    with started(str(SUM), options=(room,)) as subject:
        cost(subject, plan, "/sum/predict")
        before = subject.pss_bytes()["front-end"]
        for count in plan.connections:
            progress(f"idle connections: {count}")
            with Flock(subject.port, count) as flock:
                first = flock.ask(post("/sum/predict"))
                grown = subject.pss_bytes()["front-end"] - before
                idle_ms = idle_cpu(subject)
                found = cost(subject, plan, "/sum/predict")
                last = flock.ask(post("/sum/predict"))
            if (first, last) != ({200: count}, {200: count}):
                raise NotReady(f"{count} idle connections: answered {first}, then {last}")
            rows.append([count, grown / 1e6, grown / count / 1e3, idle_ms, *found])
    return table(
        ("idle connections", "more MB", "kB each", "idle CPU ms/s", *COST),
        rows,
    )


def waiting(plan: Plan, progress: Callable[[str], None]) -> str:
    """Tasks that wait for one model: the cost of asking another, and of answering them."""
    rows = []
    for count in plan.waiting:
        progress(f"waiting tasks: {count}")
        with started(str(HELD), str(SUM), options=(f"--queue={count}",)) as subject:
            rows.append([count, *beside_a_queue(subject, plan, count)])
    return table(
        ("waiting", *COST, "to answer them: front-end", "to answer them: all"),
        rows,
    )


def beside_a_queue(subject: Subject, plan: Plan, count: int) -> list[float]:
    """Fill the queue of the held model, ask the other one, let the held model go on."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Flock(subject.port, 1) as first,
        Flock(subject.port, count) as flock,
    ):
        gate = Path(directory) / "gate"
        first.send(post("/held/predict", json.dumps({"until": str(gate)}).encode()))
        await_metric(subject, "servekit_tasks_waiting", 0)
        flock.send(post("/held/predict", b"{}"))
        await_metric(subject, "servekit_tasks_waiting", count)
        found = cost(subject, plan, "/sum/predict")
        before = subject.cpu_s()
        gate.touch()
        seen = flock.receive() + first.receive()
        after = subject.cpu_s()
    if seen != {200: count + 1}:
        raise NotReady(f"{count} waiting tasks: answered {seen}")
    spent = [(after[role] - before[role]) * 1e6 / count for role in ("front-end", "all")]
    return [*found, *spent]


def await_metric(subject: Subject, series: str, value: float) -> None:
    def is_there() -> bool:
        return total(scrape(subject.port), series, 'model="held"') == value

    if not wait_until(is_there, seconds=WAIT_S):
        raise NotReady(f"{series} of held is not {value} after {WAIT_S:g} s")


def queue(plan: Plan, progress: Callable[[str], None]) -> str:
    """The queue of a model by itself, without sockets: as long as you like."""
    rows = []
    for count in plan.queue:
        progress(f"queue alone: {count}")
        rows.append([count, *queue_alone(count, plan.rounds)])
    return table(
        (
            *("tasks", "put", "batch", "cancel", "expire", "sweep", "sweep after cancel"),
            "bytes per task",
        ),
        rows,
    )


def front_ends(plan: Plan, progress: Callable[[str], None]) -> str:
    """Several front-ends before two workers."""
    rows = []
    for count in plan.front_ends:
        progress(f"front-ends: {count}")
        options = (f"--front-ends={count}", "--replicas=2")
        with started(str(SUM), options=options) as subject:
            found = cost(subject, plan, "/sum/predict")
            with Flock(subject.port, 100) as flock:
                before = counted(subject)
                flock.ask(post("/sum/predict"), times=20)
                seen = counted(subject) - before
            memory = subject.pss_bytes()["front-end"] / 1e6
        rows.append([count, *found, memory, f"{seen:,} of 2,000"])
    return table(("front-ends", *COST, "front-ends MB", "counted"), rows)


def counted(subject: Subject) -> int:
    """Return how many predictions have been answered, when eight scrapes say the same.

    Just after a load they need not: what wrk left behind is still being answered.
    """
    series = ("servekit_requests_total", 'status="200"')
    said: set[float] = set()

    def agree() -> bool:
        said.clear()
        said.update(total(scrape(subject.port), *series) for _ in range(8))
        return len(said) == 1

    if not wait_until(agree, seconds=WAIT_S):
        raise NotReady(f"front-ends disagree on what has been answered: {sorted(said)}")
    return int(said.pop())

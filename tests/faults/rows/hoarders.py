# SPDX-License-Identifier: Apache-2.0
"""Clients that make the server hold a lot for them, and take their time."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from tests.faults import procfs
from tests.faults.client import Client
from tests.faults.figures import Figure, at_least, at_most, equal, none
from tests.faults.requests import Shot, pings, post, steady
from tests.faults.slow_crowd import slow_crowd
from tests.faults.stage import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.ledger import Ledger
    from tests.faults.served import Served
    from tests.faults.stage import Stage

WORK = MODELS / "work"
MIB = 2**20
RATE = 20.0  #: of the health checks, and of the small requests
LARGE_RATE = 2.0
LARGE = post("/work/predict", b"x" * 600_000, "application/octet-stream")
LIMIT = 300 * MIB  #: ``--memory``
SPARE = 64 * MIB  #: above it
POLL_S = 0.1  #: how often to read the memory
PING_MS = 250.0
SMALL_MS = 5000.0  #: of the same model: 150 answers of 10 MB are made before, in order
KINDS = {"chunked": 150, "streams": 10, "large_readers": 150}  #: ten connections of 15 streams


class Siege(NamedTuple):
    """What the others saw while hoarders were there, and what the front-end held."""

    others: Ledger
    held_bytes: int
    rss_bytes: int
    front_ends: int  #: replaced
    filled: int  #: hoarders that got their bulk out
    ends: dict[str, int]  #: of theirs, by status


def slow_uploads(stage: Stage) -> Iterator[Figure]:
    """Slow uploads do not block others: their large bodies are accepted, and /ping works.

    26 clients declare 10 MiB, send 9.8 MB at once and then a byte every 3 s; they fill ``--arena``.
    Others send 600 kB twice a second. Then 40 of them with ``--memory 300MiB``. Whoever is ended
    comes again after 3 s.
    """
    seconds = stage.count(30.0, 8.0)
    siege = _besieged(stage, "uploads", 26, seconds, "--memory=0")
    large = siege.others.of("large")
    yield at_least("slow uploads of 9.8 MB", siege.filled, 25)  # the last finds no room
    yield none("600 kB of others: other than 200", large.other_than({200}) + large.lost())
    yield at_most("600 kB of others, p99", large.latency_ms(99), stage.bound(1000, "ms"), "ms")
    yield from _judge(stage, siege, "")
    siege = _besieged(stage, "uploads", 40, seconds, f"--memory={LIMIT}")
    large = siege.others.of("large")
    limited = "--memory 300MiB: "
    yield none(f"{limited}600 kB of others: lost", large.lost())
    yield from _judge(stage, siege, limited)
    yield from _judge_memory(siege, limited)


def memory(stage: Stage) -> Iterator[Figure]:
    """``--memory`` limits what a front-end holds for its clients, and /ping always works.

    ``--memory 300MiB``, and in turn 150 chunked bodies of 9 MiB that do not end, 150 of HTTP/2
    without a length, 150 clients that do not read answers of 10 MB; whoever is ended comes again
    after 3 s. 20 health checks a second on fresh connections, 20 small requests.
    """
    names = {
        "chunked": "chunked bodies: ",
        "streams": "streams of HTTP/2: ",
        "large_readers": "unread answers: ",
    }
    for kind, name in names.items():
        siege = _besieged(
            stage, kind, KINDS[kind], stage.count(20.0, 4.0), f"--memory={LIMIT}", large_rate=0
        )
        yield from _judge_memory(siege, name)
        yield from _judge(stage, siege, name, SMALL_MS)


def _besieged(
    stage: Stage,
    kind: str,
    count: int,
    seconds: float,
    *settings: str,
    large_rate: float = LARGE_RATE,
) -> Siege:
    """Have so many hoarders of a kind, and others meanwhile."""
    with stage.server("--models", WORK, *settings) as server:
        front_ends = server.pids("front-end")
        with (
            slow_crowd(server.port, seconds, {kind: count}) as crowd,
            highest(lambda: _held(server, front_ends[0])) as held,
        ):
            others = Client(server.port, 64).run(_others(seconds, large_rate))
            rss = procfs.highest_rss_bytes(front_ends[0])
            crowd.wait_stopped()
            seen = crowd.seen()
        replaced = len(set(front_ends) - set(server.pids("front-end")))
    stage.say(f"{count} {kind}: {seen['filled'][kind]} filled, ended {seen['statuses'][kind]}")
    return Siege(others, max(held), rss, replaced, seen["filled"][kind], seen["statuses"][kind])


@contextmanager
def highest(look: Callable[[], int]) -> Iterator[list[int]]:
    """Look again and again, in a thread; the list has what was seen."""
    seen, is_over = [look()], Event()

    def watch() -> None:
        while not is_over.wait(POLL_S):
            seen.append(look())

    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _held(server: Served, front_end: int) -> int:
    return procfs.held_bytes(front_end, server.pids("worker"))


def _others(seconds: float, large_rate: float) -> Iterator[Shot]:
    """Health checks, small requests, and large bodies once the hoarders have come."""
    yield from pings(RATE, seconds)
    yield from steady("work", RATE, seconds, "small", kind="small", item={"seconds": 0})
    begin = seconds / 2
    for number in range(round(large_rate * (seconds - begin))):
        at = begin + number / large_rate
        yield Shot(id=f"large-{number}", wire=LARGE, kind="large", at=at, is_fresh=True)


def _judge(stage: Stage, siege: Siege, name: str, small_ms: float = 1000.0) -> Iterator[Figure]:
    """Judge health checks, small requests and whether the front-end has survived."""
    ping, small = siege.others.of("ping"), siege.others.of("small")
    yield none(f"{name}other than 200 from /ping", ping.other_than({200}) + ping.lost())
    yield at_most(f"{name}/ping on fresh connections, p99", ping.latency_ms(99), PING_MS, "ms")
    wrong = small.other_than({200}) + small.lost() + small.wrong()
    yield none(f"{name}other than 200 for small requests", wrong)
    yield at_most(
        f"{name}small requests, p99", small.latency_ms(99), stage.bound(small_ms, "ms"), "ms"
    )
    yield equal(f"{name}front-ends that were replaced", siege.front_ends, 0)


def _judge_memory(siege: Siege, name: str) -> Iterator[Figure]:
    limit = (LIMIT + SPARE) / MIB
    held, rss = siege.held_bytes / MIB, siege.rss_bytes / MIB
    yield at_most(f"{name}front-end, shared memory included", held, limit, "MiB")
    yield at_most(f"{name}front-end, highest resident memory", rss, limit, "MiB")

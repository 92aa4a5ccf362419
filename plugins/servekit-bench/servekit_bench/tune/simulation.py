# SPDX-License-Identifier: Apache-2.0
"""How a server answers whose batches have known costs: the queue of one model, simulated.

Requests arrive at random moments (Poisson). An idle replica takes all that are waiting, up to a
batch; while all are busy, requests queue, as in the front-ends of servekit.
"""

import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from servekit_bench.tune.candidate import Candidate

__all__ = ["Simulated", "Workload", "highest_rate", "simulate"]

REQUESTS: Final = 3000
STEPS: Final = 9  #: halvings of the interval in which the highest rate is


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The costs of a model with a number of threads, on a machine."""

    seconds: Callable[[int], float]  #: time of a batch, by its size
    noise: float = 0.0  #: by how much batches of one size differ, relative
    cores: int = 1
    cpu: float = 0.0  #: cores that a worker keeps busy while it predicts
    front_end_s: float = 0.0  #: CPU time of a front-end for each request


@dataclass(frozen=True, slots=True)
class Simulated:
    """How the simulated server did."""

    p50_s: float
    p99_s: float
    batch_size: float  #: the mean


def simulate(work: Workload, candidate: Candidate, rate: float, seed: int = 1) -> Simulated:
    """Return the latencies at *rate* requests per second."""
    chosen = random.Random(seed)  # noqa: S311 - arrivals, not keys
    arrivals, now = [], 0.0
    for _ in range(REQUESTS):
        now += chosen.expovariate(rate)
        arrivals.append(now)
    load = rate * work.front_end_s / candidate.front_ends
    if load >= 1:
        return Simulated(inf, inf, 0.0)
    latencies, batches = _served(work, candidate, arrivals, chosen)
    found = sorted(latencies[REQUESTS // 10 :])
    extra = work.front_end_s / (1 - load)
    p50, p99 = (found[int(len(found) * share)] + extra for share in (0.5, 0.99))
    return Simulated(p50, p99, REQUESTS / batches)


def _served(
    work: Workload, candidate: Candidate, arrivals: list[float], chosen: random.Random
) -> tuple[list[float], int]:
    """Return the latency of each of *arrivals*, in order, and the number of batches."""
    most, delay_s = candidate.max_batch_size, candidate.max_delay_ms / 1000
    free = [0.0] * candidate.replicas  #: when each replica is idle
    heapify(free)
    latencies: list[float] = []
    first = batches = 0
    while first < len(arrivals):
        start = max(heappop(free), arrivals[first])
        if delay_s:
            last = arrivals[first + most - 1] if first + most <= len(arrivals) else inf
            start = max(start, min(arrivals[first] + delay_s, last))
        waiting = bisect_right(arrivals, start, first) - first
        busy = 1 + sum(at > start for at in free)
        idle = len(free) + 2 - busy
        size = min(most, -(-waiting // idle))
        crowd = max(1.0, busy * work.cpu / work.cores)
        took = work.seconds(size) * crowd * (1 + abs(chosen.gauss(0, work.noise)))
        end = start + took
        latencies += [end - arrived for arrived in arrivals[first : first + size]]
        heappush(free, end)
        first += size
        batches += 1
    return latencies, batches


def highest_rate(work: Workload, candidate: Candidate, p99_s: float) -> float:
    """Return the highest rate at which 99 % are answered within *p99_s*; 0 if there is none."""
    full_s = work.seconds(candidate.max_batch_size)
    crowd = max(1.0, candidate.replicas * work.cpu / work.cores)
    high = candidate.replicas * candidate.max_batch_size / full_s / crowd
    if work.front_end_s:
        high = min(high, candidate.front_ends / work.front_end_s)
    low = high / 2**STEPS
    if simulate(work, candidate, low).p99_s > p99_s:
        return 0.0
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        if simulate(work, candidate, middle).p99_s <= p99_s:
            low = middle
        else:
            high = middle
    return low

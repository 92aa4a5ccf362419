# SPDX-License-Identifier: Apache-2.0
"""Latency at a fixed rate: 50, 70 and 90 % of what a server can do, with fixed arrival times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from tests.benchmarks.answers import check
from tests.benchmarks.cases import SUM, Case
from tests.benchmarks.failed import Failed
from tests.benchmarks.open_client import OpenClient, Outcome
from tests.benchmarks.running import Plan, Progress, Running, rotated, started
from tests.benchmarks.servers import Server

CASE: Final[Case] = SUM
SHARES: Final = (0.5, 0.7, 0.9)  #: of the capacity
CONNECTIONS: Final = 64
WARM_UP_S: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSample:
    """One server, one share of its capacity, one round."""

    server: str
    round: int
    share: float
    capacity_per_s: float  #: closed-loop, by the same client, in the same round
    rate_per_s: float  #: that was asked
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    errors: int
    late_p99_ms: float  #: the client's own delay; latencies below it mean nothing

    @classmethod
    def of(cls, server: str, number: int, share: float, capacity: float, outcome: Outcome) -> Self:
        latencies, late = sorted(outcome.latencies_s), sorted(outcome.late_s)
        return cls(
            server=server,
            round=number,
            share=share,
            capacity_per_s=capacity,
            rate_per_s=share * capacity,
            p50_ms=1000 * percentile(latencies, 50),
            p99_ms=1000 * percentile(latencies, 99),
            p999_ms=1000 * percentile(latencies, 99.9),
            max_ms=1000 * percentile(latencies, 100),
            errors=outcome.errors,
            late_p99_ms=1000 * percentile(late, 99),
        )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that *percent* of the *ordered* values do not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def run(
    servers: Sequence[Server], plan: Plan, progress: Progress, failed: Failed
) -> list[OpenSample]:
    """Measure every server in every round; another one begins each round."""
    samples: list[OpenSample] = []
    for number in range(plan.rounds):
        for server in rotated([s for s in servers if not s.refuses(CASE)], number):
            progress(f"round {number + 1} of {plan.rounds}: {server.title}, open loop")
            with failed.alone(server, "open loop") as is_asked:
                samples += _visit(server, plan, number + 1) if is_asked else []
    return samples


def _visit(server: Server, plan: Plan, number: int) -> list[OpenSample]:
    with started(server, [CASE]) as running:
        return _measure(running, plan.seconds, number)


def _measure(running: Running, seconds: int, number: int) -> list[OpenSample]:
    request = running.server.request(CASE)
    answer = check(running.port, request)
    samples = []
    with OpenClient(running.port, request, answer, CONNECTIONS) as client:
        client.capacity(WARM_UP_S)
        capacity = client.capacity(seconds)
        for share in SHARES:
            client.run(share * capacity, WARM_UP_S)
            outcome = client.run(share * capacity, seconds)
            running.see_alive()
            samples.append(OpenSample.of(running.server.key, number, share, capacity, outcome))
    return samples

# SPDX-License-Identifier: Apache-2.0
"""From samples to figures: medians, spreads and ratios. No process, no text."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from tests.benchmarks.wrk import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement: one server, one case, one number of connections, one round."""

    server: str  #: its key
    case: str  #: its key
    connections: int
    round: int = 0
    requests: int
    requests_per_s: float  #: good answers only
    p50_ms: float
    p99_ms: float
    errors: int  #: answers that were not 2xx, and failed sockets
    cpu_s_per_1000: float  #: CPU seconds of the server's process tree per 1,000 requests

    @classmethod
    def of(cls, server: str, case: str, connections: int, load: Load, cpu_s: float) -> Self:
        return cls(
            server=server,
            case=case,
            connections=connections,
            requests=load.requests,
            requests_per_s=load.requests_per_s,
            p50_ms=load.p50_ms,
            p99_ms=load.p99_ms,
            errors=load.errors,
            cpu_s_per_1000=1000 * cpu_s / load.requests if load.requests else 0.0,
        )

    def in_round(self, number: int) -> Self:
        return replace(self, round=number)


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A server beside the better, at each number of connections, of one or more others."""

    title: str
    server: str
    against: tuple[str, ...]


MOSEC: Final = ("mosec-1", "mosec-32")
LITSERVE: Final = ("litserve-1", "litserve-32")
TORCHSERVE: Final = ("torchserve-1", "torchserve-32")
MLSERVER: Final = ("mlserver-1", "mlserver-32")
TRITON: Final = ("triton-1", "triton-32")

COMPARISONS: Final = (
    Comparison("servekit / mosec with the same batching", "servekit", ("mosec-32",)),
    Comparison("servekit / mosec at its better", "servekit", MOSEC),
    Comparison("servekit / nginx, static answer", "servekit", ("nginx",)),
    Comparison("servekit / LitServe at its better", "servekit", LITSERVE),
    Comparison("servekit / TorchServe at its better", "servekit", TORCHSERVE),
    Comparison("servekit / MLServer at its better", "servekit", MLSERVER),
    Comparison("servekit / Triton at its better", "servekit", TRITON),
    Comparison("servekit / gunicorn + Flask", "servekit", ("flask",)),
    Comparison("Open Inference Protocol: servekit / Triton at its better", "oip", TRITON),
    Comparison("servekit: Open Inference Protocol / native routes", "oip", ("signed",)),
    Comparison("servekit: with a signature / arrays made by the service", "signed", ("stacking",)),
    Comparison("servekit: with a signature / without, no arrays", "signed", ("servekit",)),
)


def comparable(samples: Sequence[Sample]) -> list[Comparison]:
    """Return the comparisons whose servers were all measured."""
    measured = {sample.server for sample in samples}
    return [c for c in COMPARISONS if measured >= {c.server, *c.against}]


def of_case(samples: Iterable[Sample], case: str) -> list[Sample]:
    """Return the samples of one case; figures of two cases are never put together."""
    return [sample for sample in samples if sample.case == case]


def spread(
    samples: Iterable[Sample], server: str, connections: int, figure: Callable[[Sample], float]
) -> Spread:
    """Return one figure of one server at one number of connections, over all rounds."""
    return Spread.of(figure(sample) for sample in _cell(samples, server, connections))


def ratio(samples: Sequence[Sample], comparison: Comparison, connections: int) -> Spread | None:
    """Return the ratio of requests/s, taken within each round, over all rounds.

    Within a round, because the two were measured minutes apart at most: what slows the machine
    down for a while slows both. Of several others the one with the best median counts in every
    round. ``None`` when it answered nothing.
    """

    def by_round(server: str) -> dict[int, float]:
        return {s.round: s.requests_per_s for s in _cell(samples, server, connections)}

    others = [by_round(server) for server in comparison.against]
    best = max(others, key=lambda rates: statistics.median(rates.values()))
    if not all(best.values()):
        return None
    ours = by_round(comparison.server)
    shared = [ours[number] / rate for number, rate in best.items() if number in ours]
    return Spread.of(shared) if shared else None


def levels(samples: Iterable[Sample]) -> list[int]:
    """Return the numbers of connections that were measured, fewest first."""
    return sorted({sample.connections for sample in samples})


def _cell(samples: Iterable[Sample], server: str, connections: int) -> list[Sample]:
    return [s for s in samples if s.server == server and s.connections == connections]

# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report: ``servekit bench --json`` prints them as they are declared here.

Names end in their units. A missing number (a percentile without answers) is ``null`` in JSON.
"""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, Self

import numpy as np
from msgspec import Struct

from servekit_bench.load import ClosedLoop, Load, Measurement
from servekit_bench.load.measurement import Floats, percentile

__all__ = [
    "PERCENTILES",
    "BenchReport",
    "Bin",
    "CoursePoint",
    "FailureFigures",
    "GeneratorFigures",
    "LoadFigures",
    "Percentiles",
    "RoundFigures",
    "Spread",
    "StreamFigures",
    "TargetFigures",
]

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}
BINS: Final = 30  #: bars of a histogram
CURVE: Final = 120  #: points of the curve of percentiles


class Percentiles(Struct, frozen=True):
    """Percentiles of times in milliseconds; ``None`` without any time."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    max: float | None

    @classmethod
    def of(cls, sorted_s: Floats) -> Self:
        """Return those of sorted seconds."""
        if not len(sorted_s):
            return cls(*[None] * 7)
        found = {name: 1e3 * percentile(sorted_s, each) for name, each in PERCENTILES.items()}
        return cls(mean=1e3 * float(np.mean(sorted_s)), max=1e3 * float(sorted_s[-1]), **found)


class FailureFigures(Struct, frozen=True):
    """Requests that failed in one way."""

    kind: str  #: a status, ``timeout``, ``refused``, ``reset``, ``closed``, ``not HTTP``
    count: int
    message: str  #: the first one


class StreamFigures(Struct, frozen=True):
    """Answers that came as streams."""

    streams: int
    outputs_per_s: float
    first_output_ms: Percentiles
    gap_ms: Percentiles  #: between outputs of one stream


class GeneratorFigures(Struct, frozen=True):
    """The load generator itself."""

    processes: int
    cpu: float  #: share of its time that the busiest process was on a core
    cpu_wait: float  #: share of its time that it waited for a core
    limit: str  #: ``generator`` or ``machine`` if that, and not the server, limited the load
    late_ms: float | None  #: 99th percentile of its own lateness in an open loop


class CoursePoint(Struct, frozen=True):
    """A piece of the time of a round."""

    at_s: float
    requests_per_s: float
    p50_ms: float | None
    p99_ms: float | None


class RoundFigures(Struct, frozen=True):
    """One measurement of one target."""

    requests_per_s: float  #: good answers
    requests: int
    failed: int
    unanswered: int
    duration_s: float
    latency_ms: Percentiles
    statuses: dict[int, int]
    failures: list[FailureFigures]
    sent_bytes_per_s: float
    received_bytes_per_s: float
    reconnects: int
    stream: StreamFigures | None
    generator: GeneratorFigures
    course: list[CoursePoint]

    @classmethod
    def of(cls, seen: Measurement) -> Self:
        """Return the figures of a measurement."""
        duration_s = seen.duration_s or math.inf
        return cls(
            requests_per_s=seen.requests_per_s,
            requests=seen.requests,
            failed=seen.failed,
            unanswered=seen.unanswered,
            duration_s=seen.duration_s,
            latency_ms=Percentiles.of(seen.latencies_s),
            statuses=seen.statuses,
            failures=[FailureFigures(f.kind, f.count, f.message) for f in seen.failures],
            sent_bytes_per_s=seen.sent_bytes / duration_s,
            received_bytes_per_s=seen.received_bytes / duration_s,
            reconnects=seen.reconnects,
            stream=_stream(seen),
            generator=_generator(seen),
            course=_course(seen),
        )


class Spread(Struct, frozen=True):
    """A figure over several rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of at least one value."""
        return cls(median(values), min(values), max(values))


class Bin(Struct, frozen=True):
    """A bar of a histogram."""

    from_ms: float
    to_ms: float
    count: int


class TargetFigures(Struct, frozen=True):
    """All measurements of one target."""

    name: str
    url: str
    inputs: int
    rounds: list[RoundFigures]
    histogram: list[Bin]  #: all rounds together
    curve: list[tuple[float, float]]  #: percent and milliseconds, of all rounds together

    @classmethod
    def of(cls, name: str, url: str, inputs: int, seen: Sequence[Measurement]) -> Self:
        """Return the figures of the rounds of a target."""
        together = np.sort(np.concatenate([each.latencies_s for each in seen]))
        rounds = [RoundFigures.of(each) for each in seen]
        return cls(name, url, inputs, rounds, histogram(together), percentile_curve(together))

    def spread(self, figure: Callable[[RoundFigures], float | None]) -> Spread | None:
        """Return the spread of a figure over the rounds; ``None`` if a round lacks it."""
        values = [figure(each) for each in self.rounds]
        known = [each for each in values if each is not None]
        return Spread.of(known) if len(known) == len(values) else None


class LoadFigures(Struct, frozen=True):
    """The load that was asked for."""

    kind: str  #: ``closed loop`` or ``open loop``
    connections: int
    rate: float | None = None  #: requests/s of an open loop
    arrivals: str | None = None

    @classmethod
    def of(cls, load: Load) -> Self:
        """Describe a load."""
        if isinstance(load, ClosedLoop):
            return cls("closed loop", load.connections)
        return cls("open loop", load.connections, load.rate, load.arrivals)


class BenchReport(Struct, frozen=True):
    """Everything that a run of ``servekit bench`` found."""

    began: str  #: ISO 8601, UTC
    machine: str
    load: LoadFigures
    duration_s: float  #: length of a round
    warmup_s: float
    targets: list[TargetFigures]
    warnings: list[str]
    was_stopped: bool  #: before its end, by Ctrl-C or the deadline


def histogram(sorted_s: Floats) -> list[Bin]:
    """Count latencies in bins of equal ratio, from the fastest to the slowest."""
    if not len(sorted_s):
        return []
    low, high = 1e3 * max(sorted_s[0], 1e-6), 1e3 * max(sorted_s[-1], 1e-6) * (1 + 1e-9)
    edges = np.geomspace(low, max(high, low * 1.05), BINS + 1)
    edges[0] = 0.0 if low <= 1e-3 else low * (1 - 1e-9)
    counts, _ = np.histogram(1e3 * sorted_s, edges)
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [Bin(a, b, count) for a, b, count in pairs]


def percentile_curve(sorted_s: Floats) -> list[tuple[float, float]]:
    """Return percentiles, closer together towards 100, as far as there are enough values."""
    count = len(sorted_s)
    if not count:
        return []
    parts = np.geomspace(1.0, 1 / count, CURVE)  # the share of slower ones
    percents = sorted({round(100 * (1 - each), 9) for each in parts.tolist()})
    return [(each, 1e3 * percentile(sorted_s, each)) for each in percents]


def _stream(seen: Measurement) -> StreamFigures | None:
    streams = len(seen.first_outputs_s)
    if not streams:
        return None
    return StreamFigures(
        streams=streams,
        outputs_per_s=seen.outputs / seen.duration_s,
        first_output_ms=Percentiles.of(seen.first_outputs_s),
        gap_ms=Percentiles.of(seen.gaps_s),
    )


def _generator(seen: Measurement) -> GeneratorFigures:
    late_ms = 1e3 * percentile(seen.late_s, 99) if len(seen.late_s) else None
    return GeneratorFigures(seen.processes, seen.cpu, seen.cpu_wait, seen.limit, late_ms)


def _course(seen: Measurement) -> list[CoursePoint]:
    return [
        CoursePoint(
            at_s=each.begin_s,
            requests_per_s=each.answers / each.duration_s,
            p50_ms=1e3 * each.p50_s if each.answers else None,
            p99_ms=1e3 * each.p99_s if each.answers else None,
        )
        for each in seen.seconds
        if each.duration_s > 0
    ]

# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report, as ``servekit bench --json`` prints them.

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
from servekit_bench.report.distributions import Bin, histogram, percentile_curve

__all__ = [
    "PERCENTILES",
    "CoursePoint",
    "FailureFigures",
    "GeneratorFigures",
    "LoadFigures",
    "LoadStep",
    "Percentiles",
    "RoundFigures",
    "SaturationFigures",
    "Spread",
    "StreamFigures",
    "TargetFigures",
]

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}


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

    kind: str  #: a status, ``stream``, ``timeout``, ``refused``, ``closed``, ...
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


class LoadStep(Struct, frozen=True):
    """One load of a search for the saturation."""

    connections: int
    rate: float | None  #: requests/s of an open loop; ``None`` for a closed loop
    requests_per_s: float  #: good answers
    p50_ms: float | None
    p99_ms: float | None
    failed_share: float  #: share of the requests that failed or had no answer
    is_kept: bool  #: whether the target kept up, without failures and within the bound
    limit: str  #: ``generator`` or ``machine`` if that, and not the server, limited the load


class SaturationFigures(Struct, frozen=True):
    """The load that a target can take."""

    name: str
    url: str
    p99_ms: float | None  #: the bound that was asked for
    capacity: LoadStep | None  #: the closed loop with the highest throughput
    highest: LoadStep | None  #: the open loop with the highest rate that was kept
    steps: list[LoadStep]  #: in the order in which they were tried


def _stream(seen: Measurement) -> StreamFigures | None:
    times = seen.streams
    if not len(times.first_outputs_s):
        return None
    return StreamFigures(
        streams=len(times.first_outputs_s),
        outputs_per_s=times.outputs / seen.duration_s,
        first_output_ms=Percentiles.of(times.first_outputs_s),
        gap_ms=Percentiles.of(times.gaps_s),
    )


def _generator(seen: Measurement) -> GeneratorFigures:
    use = seen.generator
    late_ms = 1e3 * percentile(use.late_s, 99) if len(use.late_s) else None
    return GeneratorFigures(use.processes, use.cpu, use.cpu_wait, seen.limit, late_ms)


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

# SPDX-License-Identifier: Apache-2.0
"""The reports of the processes of the generator, added up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from servekit_bench.load.records import LoadReport

__all__ = [
    "Floats",
    "GeneratorUse",
    "LoadFailure",
    "Measurement",
    "Second",
    "StreamTimes",
    "percentile",
]

Floats: TypeAlias = NDArray[np.float64]
BUSY: Final = 0.85  #: above this share of its time a generator is what limits the load
STARVED: Final = 0.25  #: above this share of its time in wait for a core, the machine is


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """Requests that failed in one way."""

    kind: str  #: a status, ``stream``, ``timeout``, ``refused``, ``reset``, ``closed``, ...
    count: int
    message: str  #: the first one

    @property
    def is_answer(self) -> bool:
        """Whether the server answered: with an error, or with a stream that failed."""
        return self.kind == "stream" or self.kind.isdecimal()


@dataclass(frozen=True, slots=True)
class Second:
    """One piece of the time of a measurement."""

    begin_s: float  #: since the beginning of the measurement
    duration_s: float
    answers: int
    p50_s: float  #: NaN without answers, as ``p99_s``
    p99_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimes:
    """The streams among the answers. All arrays are in seconds and sorted."""

    first_outputs_s: Floats  #: from due to the first output; one for each stream
    gaps_s: Floats  #: between outputs of a stream
    outputs: int  #: sum over all streams


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorUse:
    """The load generator itself."""

    processes: int
    cpu: float  #: share of its time that the busiest process was on a core
    cpu_wait: float  #: share of its time that it was ready to run, but all cores were taken
    late_s: Floats  #: how late it sent requests of an open loop; sorted


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The outcome of a load. All arrays are in seconds and sorted."""

    #: from the moment a request was due to its last byte: of good answers (2xx), and of requests
    #: that timed out or were unanswered at the end, with the time that they had waited
    latencies_s: Floats
    duration_s: float
    answered: int  #: good answers within the duration
    statuses: dict[int, int]
    failures: tuple[LoadFailure, ...]  #: the most frequent first
    unanswered: int  #: at the end, after a wait for the last answers
    sent_bytes: int
    received_bytes: int
    streams: StreamTimes
    reconnects: int
    seconds: tuple[Second, ...]  #: the course of the measurement, in pieces of equal length
    generator: GeneratorUse
    was_stopped: bool  #: before its end, by Ctrl-C or a deadline

    @property
    def requests_per_s(self) -> float:
        """Good answers per second."""
        return self.answered / self.duration_s if self.duration_s else 0.0

    @property
    def failed(self) -> int:
        """Requests that failed, without those that are unanswered."""
        return sum(each.count for each in self.failures)

    @property
    def requests(self) -> int:
        """Requests whose fate is known, and the unanswered ones."""
        answers = sum(self.statuses.values())
        others = sum(each.count for each in self.failures if not each.is_answer)
        return answers + others + self.unanswered

    def percentile_s(self, percent: float) -> float:
        """Return the latency that *percent* of the requests kept; NaN if there is none."""
        return percentile(self.latencies_s, percent)

    @property
    def limit(self) -> str:
        """Say whether the generator limited the load: ``generator``, ``machine`` or ````."""
        if self.generator.cpu > BUSY:
            return "generator"
        return "machine" if self.generator.cpu_wait > STARVED else ""

    @classmethod
    def of(cls, seen: Sequence[LoadReport]) -> Self:
        """Add up the reports of the processes of a generator."""
        duration_s = max(each.duration_s for each in seen)
        statuses: Counter[int] = Counter()
        for each in seen:
            statuses.update({key: n for key, n in each.statuses.items() if n})
        return cls(
            latencies_s=_joined([each.latencies_s for each in seen]),
            duration_s=duration_s,
            answered=sum(each.answered for each in seen),
            statuses=dict(statuses),
            failures=_failures(seen),
            unanswered=sum(each.unanswered for each in seen),
            sent_bytes=sum(each.sent_bytes for each in seen),
            received_bytes=sum(each.received_bytes for each in seen),
            streams=StreamTimes(
                first_outputs_s=_joined([each.streams.first_outputs_s for each in seen]),
                gaps_s=_joined([each.streams.gaps_s for each in seen]),
                outputs=sum(each.streams.outputs for each in seen),
            ),
            reconnects=sum(each.reconnects for each in seen),
            seconds=_seconds(seen),
            generator=GeneratorUse(
                processes=len(seen),
                cpu=max(_share(each.cpu_s, each.duration_s) for each in seen),
                cpu_wait=max(_share(each.cpu_wait_s, each.duration_s) for each in seen),
                late_s=_joined([each.late_s for each in seen]),
            ),
            was_stopped=any(each.was_stopped for each in seen),
        )


def percentile(sorted_values: Floats, percent: float) -> float:
    """Return the smallest value that *percent* of the values do not exceed; NaN of none."""
    count = len(sorted_values)
    if not count:
        return float("nan")
    return float(sorted_values[min(count, max(1, int(np.ceil(count * percent / 100)))) - 1])


def _share(spent_s: float, duration_s: float) -> float:
    """Return a share of the time; 0 if it was too short to tell."""
    return min(1.0, spent_s / duration_s) if duration_s > 0.05 else 0.0


def _joined(parts: Sequence[bytes]) -> Floats:
    return np.sort(np.frombuffer(b"".join(parts), np.float64))


def _failures(seen: Sequence[LoadReport]) -> tuple[LoadFailure, ...]:
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for each in seen:
        for kind, (number, message) in each.failures.items():
            counts[kind] += number
            first.setdefault(kind, message)
    return tuple(LoadFailure(kind, number, first[kind]) for kind, number in counts.most_common())


def _seconds(seen: Sequence[LoadReport]) -> tuple[Second, ...]:
    """Cut the latencies, which are in the order of the answers, at the marks."""
    found, begin_s = [], 0.0
    before = [0] * len(seen)
    values = [np.frombuffer(each.latencies_s, np.float64) for each in seen]
    for marks in zip(*(each.marks for each in seen), strict=False):
        end_s = marks[0][0]
        places = [place for _, place in marks]
        cut = [each[a:b] for each, a, b in zip(values, before, places, strict=True)]
        piece = np.sort(np.concatenate(cut))
        p50_s, p99_s = percentile(piece, 50), percentile(piece, 99)
        found.append(Second(begin_s, end_s - begin_s, len(piece), p50_s, p99_s))
        begin_s, before = end_s, places
    return tuple(found)

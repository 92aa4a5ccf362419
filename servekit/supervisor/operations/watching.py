# SPDX-License-Identifier: Apache-2.0
"""Watches a new version while it answers: its errors, its latency and its workers."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic

from servekit.ipc.model_counters import DURATIONS, VersionCounts
from servekit.ipc.operations import Swap
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.os.coroutines import sleep
from servekit.supervisor.os.loop import Loop

__all__ = ["BoundCrossed", "Sample", "Watch", "quantile_s"]

POLL_S = 0.25  #: between two samples
WINDOW_S = 5.0  #: what is judged: older errors do not hide new ones, nor the reverse
MIN_ERRORS = 3  #: fewer may be an accident
MIN_DURATIONS = 20  #: a percentile of fewer says nothing


class BoundCrossed(Exception):
    """The new version is worse than its operator allows; the message says in what."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts of one moment, since the server started."""

    at: float  #: ``monotonic``
    responses: int
    errors: int  #: 5xx
    durations: Sequence[int]  #: as in ``VersionCounts``

    @classmethod
    def of(cls, at: float, counts: VersionCounts) -> "Sample":
        """Return what matters of *counts*."""
        statuses = counts.statuses
        errors = sum(number for status, number in statuses.items() if status >= 500)
        return cls(at, sum(statuses.values()), errors, counts.durations)

    def problem(self, earlier: "Sample", order: Swap) -> str:
        """Return which bound of *order* the responses since *earlier* cross, or ""."""
        responses, errors = self.responses - earlier.responses, self.errors - earlier.errors
        if errors >= MIN_ERRORS and errors > order.max_error_rate * responses:
            rate, bound = 100 * errors / responses, 100 * order.max_error_rate
            return f"{rate:.3g} % of {responses} responses are errors, more than {bound:.3g} %"
        durations = [a - b for a, b in zip(self.durations, earlier.durations, strict=True)]
        if order.max_latency_s and sum(durations) >= MIN_DURATIONS:
            p99_s = quantile_s(durations, 0.99)
            if p99_s > order.max_latency_s:
                limit = f"more than {order.max_latency_s:.3g} s"
                return f"99 % of the responses take up to {p99_s:.3g} s, {limit}"
        return ""


def quantile_s(durations: Sequence[int], share: float) -> float:
    """Return the duration that *share* of the responses do not exceed, estimated in its bucket."""
    wanted = share * sum(durations)
    sums = list(accumulate(durations))
    place = next(place for place, count in enumerate(sums) if count >= wanted)
    if place == len(DURATIONS):
        return float("inf")
    low = DURATIONS[place - 1] if place else 0.0
    before = sums[place] - durations[place]
    return low + (DURATIONS[place] - low) * (wanted - before) / durations[place]


class Watch:
    """Looks at one version several times a second."""

    def __init__(
        self,
        loop: Loop,
        version: ModelVersion,
        order: Swap,
        read: Callable[[str, str], VersionCounts],
    ) -> None:
        """Judge what *version* answers from now on by the bounds of *order*.

        :param read: returns what was counted for a model and version.
        """
        self._loop, self._version, self._order, self._read = loop, version, order, read
        self._samples: deque[Sample] = deque([self._look()])
        version.failure = ""

    async def through(self, duration_s: float) -> None:
        """Watch for *duration_s*.

        :raises BoundCrossed: the version answers worse than allowed, or a worker died.
        """
        end = monotonic() + duration_s
        while (left_s := end - monotonic()) > 0:
            await sleep(self._loop, min(left_s, POLL_S))
            self._judge()

    def _look(self) -> Sample:
        counts = self._read(self._version.prepared.name, self._version.version)
        return Sample.of(monotonic(), counts)

    def _judge(self) -> None:
        if self._version.failure:
            raise BoundCrossed(f"a worker died: {self._version.failure}")
        samples, now = self._samples, self._look()
        samples.append(now)
        while len(samples) > 1 and samples[1].at <= now.at - WINDOW_S:
            samples.popleft()
        if problem := now.problem(samples[0], self._order):
            raise BoundCrossed(problem)

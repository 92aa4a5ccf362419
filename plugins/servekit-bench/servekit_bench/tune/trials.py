# SPDX-License-Identifier: Apache-2.0
"""Loads on a server, and the highest rate at which it keeps the latency."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log
from statistics import median_low
from time import monotonic
from typing import Final

from servekit_bench.load import OpenLoop, Target, generate
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.planning import Goal

__all__ = [
    "WARM_UP_S",
    "MeasuredCandidate",
    "RunTrial",
    "Trial",
    "duration_of",
    "search_rate",
    "try_rate",
]

REQUESTS: Final = 400  #: enough for a percentile
SHORTEST_S: Final = 1.5
LONGEST_S: Final = 5.0
WARM_UP_S: Final = 0.4
TRIALS: Final = 5  #: rates that are tried for a candidate after the first
NEAR: Final = 1.12  #: a rate that is kept and one that is not are near enough
ANSWERED: Final = 0.9  #: share of the requests that must be answered within the time


@dataclass(frozen=True, slots=True)
class Trial:
    """One load at fixed moments on a server with the settings of a candidate."""

    rate: float  #: requests/s that were sent
    requests_per_s: float  #: that were answered
    p50_s: float
    p99_s: float
    failed: int  #: requests that were not answered with a 2xx
    limit: str = ""  #: ``generator`` or ``machine`` if the load was limited by that

    def keeps(self, goal: Goal) -> bool:
        """Whether the latency was kept, and all requests answered."""
        is_answered = not self.failed and self.requests_per_s >= ANSWERED * self.rate
        return is_answered and self.p99_s <= goal.p99_s


#: from requests/s and seconds to the result
RunTrial = Callable[[float, float], Trial]


@dataclass(slots=True)
class MeasuredCandidate:
    """A candidate, and the trials with it."""

    candidate: Candidate
    predicted: float  #: the highest rate by the model of the costs
    trials: list[Trial] = field(default_factory=list)

    def rate(self, goal: Goal) -> float:
        """Return the highest rate at which the latency was kept; 0 if there is none."""
        return max((rate for rate, is_kept in self.by_rate(goal).items() if is_kept), default=0.0)

    def by_rate(self, goal: Goal) -> dict[float, bool]:
        """Return for each rate whether at least half of its trials kept the latency."""
        kept: dict[float, list[bool]] = {}
        for each in self.trials:
            kept.setdefault(each.rate, []).append(each.keeps(goal))
        return {rate: 2 * sum(found) >= len(found) for rate, found in kept.items()}

    def p99_s(self, goal: Goal) -> float:
        """Return the latency at the rate of the goal, or at the highest rate that kept it."""
        rate = goal.rate or self.rate(goal)
        found = [each.p99_s for each in self.trials if each.rate == rate]
        return median_low(found) if found else inf

    @property
    def least_p99_s(self) -> float:
        """The best latency of all trials."""
        return min((each.p99_s for each in self.trials), default=inf)


def try_rate(target: Target, rate: float, duration_s: float) -> Trial:
    """Send *rate* requests per second, at random moments.

    :raises KeyboardInterrupt: Ctrl-C ended it early.
    """
    load = OpenLoop(rate, connections=max(64, min(1024, int(rate))))
    found = generate(target, load, duration_s=duration_s, warmup_s=WARM_UP_S, timeout_s=10.0)
    if found.was_stopped:
        raise KeyboardInterrupt
    return Trial(
        rate=rate,
        requests_per_s=found.requests_per_s,
        p50_s=found.percentile_s(50),
        p99_s=found.percentile_s(99),
        failed=found.failed + found.unanswered,
        limit=found.limit,
    )


def duration_of(rate: float) -> float:
    """Return how long a trial lasts, for a percentile that says something."""
    return min(LONGEST_S, max(SHORTEST_S, REQUESTS / rate))


def search_rate(
    run: RunTrial, measured: MeasuredCandidate, goal: Goal, guess: float, deadline: float
) -> None:
    """Add trials to *measured* until its highest rate is known well enough.

    :param guess: where to begin.
    :param deadline: ``monotonic``: no trial is begun after it.
    """
    rate = goal.rate or guess
    measured.trials.append(run(rate, duration_of(rate)))
    if not measured.trials[0].keeps(goal):
        measured.trials.append(run(rate, duration_of(rate)))  # it may have been disturbed
    for _ in range(0 if goal.rate else TRIALS):
        found = measured.by_rate(goal)
        kept = [each for each, is_kept in found.items() if is_kept]
        missed = [each for each, is_kept in found.items() if not is_kept]
        low, high = max(kept, default=0.0), min(missed, default=inf)
        if low and high / low < NEAR:
            return
        if monotonic() > deadline and len(measured.trials) > 1:
            return
        rate = _next_rate(measured.trials[-1], goal, low, high)
        measured.trials.append(run(rate, duration_of(rate)))


def _next_rate(last: Trial, goal: Goal, low: float, high: float) -> float:
    """Return the rate to try next: between the two that are known, or further in one direction."""
    if low and high < inf:
        return float((low * high) ** 0.5)
    if low:
        return low * (1.5 if last.p99_s < goal.p99_s / 2 else 1.25)
    excess = log(max(last.p99_s, 1e-6) / goal.p99_s) if last.p99_s < inf else 1.0
    return high * (0.75 if excess < 1 else 0.5)

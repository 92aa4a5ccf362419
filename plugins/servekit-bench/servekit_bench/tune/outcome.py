# SPDX-License-Identifier: Apache-2.0
"""The result of a search: the recommended settings, and how sure it is of them."""

from dataclasses import dataclass, field
from statistics import median
from typing import Final

from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.planning import CandidatePrediction, Goal
from servekit_bench.tune.probing import Probe
from servekit_bench.tune.trials import MeasuredCandidate, Trial

__all__ = ["CandidateComparison", "Outcome"]

NOISY: Final = 0.25  #: latencies of one candidate that differ by more are noise
CLOSE: Final = 0.05  #: rates that differ by less are equal


@dataclass(slots=True)
class CandidateComparison:
    """Candidates at the same rate, alternating; the best one first."""

    rate: float
    trials: dict[Candidate, list[Trial]]

    def latencies(self, candidate: Candidate) -> list[float]:
        """Return the 99th percentiles of *candidate*, one for each round."""
        return [each.p99_s for each in self.trials[candidate]]

    @property
    def noise(self) -> float:
        """How much the rounds of a candidate differ: the median distance, relative."""
        found = []
        for candidate in self.trials:
            latencies = self.latencies(candidate)
            middle = median(latencies)
            found.append(median(abs(each - middle) for each in latencies) / middle)
        return max(found)

    @property
    def is_decided(self) -> bool:
        """Whether the difference of the first two is larger than the noise."""
        if len(self.trials) < 2:
            return True
        first, second, *_ = (median(self.latencies(each)) for each in self.trials)
        return abs(first - second) / min(first, second) > 2 * self.noise


@dataclass(slots=True)
class Outcome:
    """Everything that is known at the end, or when Ctrl-C came."""

    goal: Goal
    defaults: Candidate  #: the settings of the archive
    probes: list[Probe] = field(default_factory=list)
    own: MeasuredCandidate | None = None  #: with the settings of the archive
    predictions: list[CandidatePrediction] = field(default_factory=list)
    measured: list[MeasuredCandidate] = field(default_factory=list)
    comparison: CandidateComparison | None = None
    avoided: list[str] = field(default_factory=list)  #: settings that were not tried, and why
    doubts: list[str] = field(default_factory=list)  #: why the result is not surer
    was_stopped: bool = False
    seconds: float = 0.0

    @property
    def all_measured(self) -> list[MeasuredCandidate]:
        """Every candidate with trials, the archive's own too."""
        own = [self.own] if self.own is not None else []
        return [each for each in [*own, *self.measured] if each.trials]

    @property
    def ranked(self) -> list[MeasuredCandidate]:
        """Those that keep the latency, the best first; of two that are alike the cheaper one."""
        kept = [each for each in self.all_measured if self._is_kept(each)]
        if self.goal.rate:
            return sorted(kept, key=lambda each: (each.candidate.replicas, each.p99_s(self.goal)))
        return sorted(kept, key=lambda each: -each.rate(self.goal))

    def _is_kept(self, each: MeasuredCandidate) -> bool:
        if not self.goal.rate:
            return each.rate(self.goal) > 0
        trials = [trial.keeps(self.goal) for trial in each.trials if trial.rate == self.goal.rate]
        return sum(trials) * 2 > len(trials)

    @property
    def best(self) -> MeasuredCandidate | None:
        """The recommended candidate; ``None`` if none keeps the latency."""
        ranked, found = self.ranked, self.comparison
        if found is None:
            return ranked[0] if ranked else None
        compared = [
            each
            for each in ranked
            if each.candidate in found.trials and each.by_rate(self.goal).get(found.rate)
        ]
        return min(compared, key=self._compared_key) if compared else next(iter(ranked), None)

    def _compared_key(self, each: MeasuredCandidate) -> tuple[float, ...]:
        """Return what sorts compared candidates: of two that are alike, fewer changes win."""
        assert self.comparison is not None
        candidate, latency_s = each.candidate, median(self.comparison.latencies(each.candidate))
        replicas = candidate.replicas if self.goal.rate else 0
        if self.comparison.is_decided:
            return (replicas, latency_s)
        changes = sum(
            getattr(candidate, name) != getattr(self.defaults, name) for name in candidate.__slots__
        )
        return (replicas, changes, latency_s)

    @property
    def model_error(self) -> float:
        """How far measured rates are from predicted ones: the median, relative."""
        rates = [(each.rate(self.goal), each.predicted) for each in self.all_measured]
        found = [abs(rate / predicted - 1) for rate, predicted in rates if rate and predicted]
        return median(found) if found else 1.0

    @property
    def closest(self) -> MeasuredCandidate | None:
        """The candidate with the best latency, where none keeps the one that is wanted."""
        return min(self.all_measured, key=lambda each: each.least_p99_s, default=None)

    @property
    def confidence(self) -> str:
        """``high``, ``medium`` or ``low``."""
        return ("high", "medium", "low")[min(2, len(self.all_doubts))]

    @property
    def all_doubts(self) -> list[str]:
        """Why the result is not surer, in sentences."""
        found = list(self.doubts)
        if self.was_stopped:
            found.append("it was stopped before its end")
        if self.comparison is None:
            found.append("the best candidates were not compared again")
        elif not self.comparison.is_decided:
            noise = f"{self.comparison.noise:.0%}"
            found.append(f"the best two differ by less than the noise, {noise} of the latency")
        if any(t.limit for each in self.all_measured for t in each.trials if t.keeps(self.goal)):
            found.append("the load generator shares the machine, and needed the same cores")
        if self.probes and self.probes[0].curve.noise > NOISY:
            found.append(f"batches of one size differ by {self.probes[0].curve.noise:.0%}")
        return found

# SPDX-License-Identifier: Apache-2.0
"""The search within a budget: costs, a plan, measurements, a comparison."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from math import log2
from time import monotonic
from typing import Final, Protocol

from servekit_archiver.cli.output import human_seconds

from servekit.errors import StartupError
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.outcome import CandidateComparison, Outcome
from servekit_bench.tune.planning import (
    CandidatePrediction,
    Costs,
    Goal,
    TuneLimits,
    TunePlan,
    plan,
)
from servekit_bench.tune.probing import Probe
from servekit_bench.tune.simulation import highest_rate
from servekit_bench.tune.trials import MeasuredCandidate, RunTrial, duration_of, search_rate

__all__ = ["Lab", "Running", "Search", "Tuning"]

PROBING: Final = 0.3  #: share of the budget until which costs are measured
OWN: Final = 0.45  #: and until which the settings of the archive are
MEASURING: Final = 0.8  #: and until which candidates are
COMPARING: Final = 0.95  #: and until which a comparison can begin
CAUTION: Final = 0.85  #: of the predicted rate is tried first
PROMISING: Final = 0.85  #: a candidate is measured if this much of the best is predicted for it
LEAST_ERROR: Final = 0.03  #: of predictions, however well they were met
ROUNDS: Final = 7  #: of the comparison, at most
LEAST_ROUNDS: Final = 3
ROUND_S: Final = 4.0


class Running(Protocol):
    """A server with the settings of a candidate."""

    @property
    def run(self) -> RunTrial:
        """Puts a load on it."""

    def front_end_s(self) -> float:
        """CPU time of the front-ends for each request until now."""


class Lab(Protocol):
    """Starts servers, or stands for them in tests."""

    def probe(
        self, threads: int, sizes: tuple[int, ...], longest_s: float, deadline: float
    ) -> Probe:
        """Measure what batches cost."""

    def serving(self, candidate: Candidate) -> AbstractContextManager[Running]:
        """Serve with the settings of *candidate*."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The task of a search."""

    goal: Goal
    limits: TuneLimits
    own: Candidate  #: the settings of the archive
    sizes: tuple[int, ...]  #: sizes of batches that are tried
    budget_s: float


class Search:
    """One run of ``servekit tune``; ``outcome`` is what is known so far."""

    def __init__(self, tuning: Tuning, lab: Lab, tell: Callable[[str], None]) -> None:
        self._tuning, self._lab, self._tell = tuning, lab, tell
        self._goal, self._began = tuning.goal, monotonic()
        self.outcome = Outcome(tuning.goal, tuning.own)
        self._costs = Costs()
        self._plan = TunePlan()
        self._candidate_s = 0.0  #: the longest time that a candidate took

    def run(self) -> Outcome:
        """Search until the budget is spent, or nothing is left to try. Ctrl-C ends it early.

        :raises StartupError: the model cannot be served.
        """
        try:
            self._probe()
            self._measure_own()
            self._plan_and_measure()
            self._compare()
        except KeyboardInterrupt:
            self.outcome.was_stopped = True
        self.outcome.seconds = monotonic() - self._began
        return self.outcome

    def _until(self, share: float) -> float:
        return self._began + share * self._tuning.budget_s

    # ------------------------------------------------------------ costs

    def _probe(self) -> None:
        """Measure batches with the threads that the server chooses, and then with others."""
        deadline = self._until(PROBING)
        sizes, longest_s = self._tuning.sizes, self._goal.p99_s
        usual = self._lab.probe(0, sizes, longest_s, deadline)
        if usual.largest == 1 and not usual.failing and len(sizes) > 1:
            raise StartupError(_why_no_batch(usual))
        self.outcome.probes = [usual]
        self._costs.probes[0] = usual
        counts = [1 << power for power in range(10) if 1 << power < self._tuning.limits.cores]
        few = tuple(size for size in sizes if not usual.failing or size <= usual.largest)[::2]
        for threads in counts:
            if monotonic() > deadline:
                fewest = f"{threads} thread{'s' * (threads > 1)}"
                self.outcome.doubts.append(
                    f"settings with {fewest} or more were not tried: no time left"
                )
                break
            found = self._lab.probe(threads, few, longest_s, deadline)
            self._costs.probes[threads] = found
            self.outcome.probes.append(found)

    def _measure_own(self) -> None:
        """Measure the settings that the archive has."""
        own = self._tuning.own
        if 0 < self._costs.probes[0].failing <= own.max_batch_size:
            self.outcome.avoided.append(f"the archive's settings, {own.label}")
            return
        work = self._costs.workload(own, self._tuning.limits)
        guess = highest_rate(work, own, self._goal.p99_s) or 1 / work.seconds(1) / 2
        with self._lab.serving(own) as running:
            self.outcome.own = measured = MeasuredCandidate(own, guess)
            search_rate(running.run, measured, self._goal, CAUTION * guess, self._until(OWN))
            self._costs.front_end_s = running.front_end_s()

    # ------------------------------------------------------------ candidates

    def _plan_and_measure(self) -> None:
        tuning = self._tuning
        self._tell("simulating the queue of each candidate")
        self._plan = plan(self._goal, tuning.limits, self._costs, tuning.own)
        self.outcome.avoided += self._plan.avoided
        self.outcome.predictions = self._plan.predictions
        tried = {self.outcome.own.candidate} if self.outcome.own is not None else set()
        while (chosen := self._next(tried)) is not None:
            if self.outcome.measured and monotonic() + self._candidate_s > self._until(MEASURING):
                self.outcome.doubts += filter(None, [self._untried(tried)])
                break
            tried.add(chosen.candidate)
            self._measure(chosen)

    def _next(self, tried: set[Candidate]) -> CandidatePrediction | None:
        """Return what to measure next: the best predictions, then neighbours of the best one."""
        left = [each for each in self._plan.predictions if each.candidate not in tried]
        if not left or len(self.outcome.measured) < 2:
            return left[0] if left else None
        best = self.outcome.best
        if best is None:
            return left[0] if left[0].rate else None
        if self._goal.rate:
            cheaper = [each for each in left if each.candidate.replicas < best.candidate.replicas]
            left = [each for each in cheaper if each.rate >= self._goal.rate]
            return left[0] if left else None
        near = [each for each in left if each.rate >= PROMISING * best.predicted]
        return min(near, key=lambda each: _distance(each.candidate, best.candidate), default=None)

    def _untried(self, tried: set[Candidate]) -> str:
        """Return a doubt about candidates that were not measured; "" if the model excludes them."""
        best, error = self.outcome.best, self.outcome.model_error
        bar = (1 - max(error, LEAST_ERROR)) * best.predicted if best else 0.0
        left = [e for e in self._plan.predictions if e.candidate not in tried and e.rate >= bar]
        if not left:
            return ""
        count = f"{len(left)} candidate{'s' * (len(left) > 1)}"
        return f"{count} of similar promise could not be measured in the time; more --budget helps"

    def _measure(self, chosen: CandidatePrediction) -> None:
        self._tell(f"measuring {chosen.candidate.label}")
        measured = MeasuredCandidate(chosen.candidate, chosen.rate)
        guess, began = CAUTION * (chosen.rate or self._goal.rate or 1.0), monotonic()
        try:
            with self._lab.serving(chosen.candidate) as running:
                self.outcome.measured.append(measured)
                search_rate(running.run, measured, self._goal, guess, self._until(MEASURING))
        except StartupError as error:
            self.outcome.avoided.append(f"{chosen.candidate.label}: {error}")
        self._candidate_s = max(self._candidate_s, monotonic() - began)

    # ------------------------------------------------------------ the comparison

    def _compare(self) -> None:
        """Compare the best two, alternating, at the same rate."""
        ranked = self.outcome.ranked[:2]
        if len(ranked) < 2 or monotonic() > self._until(COMPARING):
            return
        rate = self._goal.rate or ranked[0].rate(self._goal)
        with ExitStack() as stack:
            running = [stack.enter_context(self._lab.serving(each.candidate)) for each in ranked]
            found = CandidateComparison(rate, {each.candidate: [] for each in ranked})
            self.outcome.comparison = found
            for number in range(ROUNDS):
                if monotonic() + ROUND_S * len(ranked) > self._until(1.0) and number > 1:
                    break
                self._tell(f"comparing the best {len(ranked)}, round {number + 1}")
                for each, server in zip(ranked, running, strict=True):
                    trial = server.run(rate, duration_of(rate))
                    each.trials.append(trial)
                    found.trials[each.candidate].append(trial)
                if number + 1 >= LEAST_ROUNDS and found.is_decided:
                    break


def _why_no_batch(probe: Probe) -> str:
    """Return why single requests alone were timed, although larger batches were to be."""
    if probe.largest_burst > 1:
        return (
            "requests that come together are not predicted in batches: a service that streams"
            " or is async cannot be tuned; see servekit bench --saturation"
        )
    took = human_seconds(probe.curve.seconds(1))
    return f"only single requests could be timed ({took} each), no batches; more --budget helps"


def _distance(one: Candidate, other: Candidate) -> float:
    """Return how many steps are between two candidates."""
    sizes = abs(log2(one.max_batch_size / other.max_batch_size))
    replicas = abs(log2(one.replicas / other.replicas))
    others = (one.threads != other.threads) + (one.front_ends != other.front_ends)
    return sizes + replicas + others + (one.max_delay_ms != other.max_delay_ms)

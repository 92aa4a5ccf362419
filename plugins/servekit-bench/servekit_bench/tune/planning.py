# SPDX-License-Identifier: Apache-2.0
"""Chooses the candidates that could be the best, by measured costs and simulated queues."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, log
from statistics import median
from typing import Final

from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.probing import Probe
from servekit_bench.tune.simulation import Workload, highest_rate, simulate

__all__ = ["CandidatePrediction", "Costs", "Goal", "TuneLimits", "TunePlan", "plan"]

COUNTS: Final = (
    1,
    2,
    3,
    4,
    6,
    8,
    12,
    16,
    24,
    32,
    48,
    64,
)  #: numbers of replicas that are considered
FILLED: Final = 0.8  #: share of the memory that replicas may take
CLOSE: Final = 0.03  #: predictions that differ by less are equal
MARGIN: Final = 1.1  #: a candidate for a given rate should be able to serve more
BUSY: Final = 0.7  #: load of the front-ends above which more of them are considered
DELAYS: Final = (0.05, 0.15, 0.3)  #: parts of the latency that requests may wait for company
THREADS_MATTER: Final = 0.1  #: times that differ by less are the same with other threads
DELAYED: Final = 4  #: candidates for which delays are considered
HOPELESS: Final = 0.5  #: candidates that cannot reach this share of the best are not simulated


@dataclass(frozen=True, slots=True)
class Goal:
    """The purpose of the settings."""

    p99_s: float  #: latency that 99 % of the requests keep
    rate: float = 0.0  #: requests/s that come; 0: as many as possible


@dataclass(frozen=True, slots=True)
class TuneLimits:
    """The resources that a server may use."""

    cores: int
    memory_bytes: int
    max_replicas: int

    def share(self, replicas: int) -> int:
        """Return how many threads each of *replicas* gets from the server, if nothing is set."""
        return max(1, self.cores // replicas)


@dataclass(slots=True)
class Costs:
    """The measured costs of a model."""

    probes: dict[int, Probe] = field(default_factory=dict)
    """By number of threads; 0: as many as the server chooses for one replica."""
    front_end_s: float = 0.0  #: CPU time of the front-ends for each request

    @property
    def choices(self) -> dict[int, Probe]:
        """The probes by threads, without those that are as fast as one with fewer threads."""
        found: dict[int, Probe] = {}
        for threads in sorted(self.probes):
            probe = self.probes[threads]
            if all(_differ(probe, known) for known in found.values()):
                found[threads] = probe
        return found

    def workload(self, candidate: Candidate, limits: TuneLimits) -> Workload:
        """Return the costs with the settings of *candidate*."""
        found = self._probe_of(candidate, limits)
        return Workload(
            seconds=found.curve.seconds,
            noise=found.curve.noise,
            cores=limits.cores,
            cpu=found.cpu,
            front_end_s=self.front_end_s,
        )

    def _probe_of(self, candidate: Candidate, limits: TuneLimits) -> Probe:
        """Return the probe with the threads that a replica has: its share, if nothing is set."""
        share = limits.share(candidate.replicas)
        if candidate.threads or candidate.replicas == 1 or share not in self.probes:
            return self.probes[candidate.threads]
        return self.probes[share]


@dataclass(frozen=True, slots=True)
class CandidatePrediction:
    """The expected performance of a candidate."""

    candidate: Candidate
    rate: float  #: the highest at which it keeps the latency; 0 if it never does
    p99_s: float  #: at the rate of the goal, or at ``rate``
    cores: float  #: that its workers keep busy at most


@dataclass(slots=True)
class TunePlan:
    """Candidates, the best one first, and those that were left out."""

    predictions: list[CandidatePrediction] = field(default_factory=list)
    avoided: list[str] = field(default_factory=list)


def plan(goal: Goal, limits: TuneLimits, costs: Costs, own: Candidate) -> TunePlan:
    """Return what is worth a measurement.

    :param own: the settings of the archive.
    """
    found = TunePlan(avoided=[_failing(each) for each in costs.probes.values() if each.failing])
    candidates = [
        Candidate(max_batch_size=size, replicas=replicas, threads=threads)
        for threads, known in costs.choices.items()
        for replicas in _counts(known, limits, found.avoided)
        if threads != limits.share(replicas)  # it has them anyway
        for size in _sizes(known, goal, own)
        if known.bytes_of(size) * replicas <= FILLED * limits.memory_bytes
    ]
    found.predictions = _predict(goal, limits, costs, candidates)
    best = found.predictions[:DELAYED]
    others = [
        replace(each.candidate, max_delay_ms=round(goal.p99_s * 1e3 * share, 1))
        for each in best
        for share in DELAYS
    ]
    if costs.front_end_s and best and best[0].rate * costs.front_end_s > BUSY:
        others += [replace(each.candidate, front_ends=2) for each in best]
    usual = {replace(each.candidate, max_delay_ms=0.0): each.rate for each in best}
    found.predictions += [
        each
        for each in _predict(goal, limits, costs, others)
        if each.rate > (1 + CLOSE) * usual[replace(each.candidate, max_delay_ms=0.0, front_ends=1)]
    ]
    found.predictions.sort(key=lambda each: _order(goal, each))
    return found


def _predict(
    goal: Goal, limits: TuneLimits, costs: Costs, candidates: Iterable[Candidate]
) -> list[CandidatePrediction]:
    """Return predictions for those of *candidates* that could be the best, the best first."""
    ordered = sorted(candidates, key=lambda each: -_capacity(each, limits, costs))
    found: list[CandidatePrediction] = []
    best = 0.0
    for candidate in ordered:
        if _capacity(candidate, limits, costs) < (goal.rate or HOPELESS * best):
            continue
        work = costs.workload(candidate, limits)
        rate = highest_rate(work, candidate, goal.p99_s)
        p99_s = simulate(work, candidate, goal.rate or rate).p99_s if goal.rate or rate else inf
        found.append(
            CandidatePrediction(candidate, rate, p99_s, candidate.replicas * max(work.cpu, 0.1))
        )
        best = max(best, rate)
    return sorted(found, key=lambda each: _order(goal, each))


def _capacity(candidate: Candidate, limits: TuneLimits, costs: Costs) -> float:
    work = costs.workload(candidate, limits)
    crowd = max(1.0, candidate.replicas * work.cpu / work.cores)
    return (
        candidate.replicas
        * candidate.max_batch_size
        / work.seconds(candidate.max_batch_size)
        / crowd
    )


def _order(goal: Goal, each: CandidatePrediction) -> tuple[float, ...]:
    """Return what sorts predictions: the best first, the cheaper one of two that are alike."""
    chosen = each.candidate
    simple = (chosen.front_ends, each.cores, chosen.max_delay_ms, chosen.max_batch_size)
    if goal.rate:
        is_enough = each.rate >= MARGIN * goal.rate
        return (
            (0, chosen.replicas, *simple[:2], each.p99_s) if is_enough else (1, -each.rate, *simple)
        )
    step = round(log(each.rate) / CLOSE) if each.rate else -1e9
    return (-step, chosen.replicas, *simple)


def _counts(known: Probe, limits: TuneLimits, avoided: list[str]) -> Sequence[int]:
    """Return the numbers of replicas that fit into the memory."""
    wanted = [count for count in COUNTS if count <= limits.max_replicas]
    room = FILLED * limits.memory_bytes
    fitting = [count for count in wanted if count * known.idle_bytes <= room]
    if len(fitting) < len(wanted):
        avoided.append(
            f"{wanted[len(fitting)]} replicas or more do not fit into the memory: each needs"
            f" {known.idle_bytes / 2**20:.0f} MiB of {limits.memory_bytes / 2**20:.0f} MiB"
        )
    return fitting


def _sizes(known: Probe, goal: Goal, own: Candidate) -> Sequence[int]:
    """Return sizes of batches: those measured, steps between them, and the archive's own."""
    measured = [size for size, _ in known.curve.points]
    between = [(low + high) // 2 for low, high in pairwise(measured)]
    # two batches after one another should be over in time
    quick = [
        size for size in range(1, known.largest + 1) if 2 * known.curve.seconds(size) <= goal.p99_s
    ]
    found = {*measured, *between, *quick[-1:], min(own.max_batch_size, known.largest)}
    return sorted(size for size in found if known.curve.seconds(size) <= goal.p99_s) or [1]


def _failing(known: Probe) -> str:
    threads = f" with {known.threads_label}" if known.threads else ""
    return (
        f"batches of {known.failing}{threads} fail ({known.reason}); {known.largest} is the largest"
        " that worked"
    )


def _differ(one: Probe, other: Probe) -> bool:
    """Whether batches of two probes take different times."""
    sizes = [size for size, _ in one.curve.points if size <= other.largest]
    ratios = [one.curve.seconds(size) / other.curve.seconds(size) for size in sizes]
    return not ratios or abs(median(ratios) - 1) > THREADS_MATTER

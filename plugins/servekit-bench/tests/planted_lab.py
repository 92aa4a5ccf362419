# SPDX-License-Identifier: Apache-2.0
"""Stands for real servers: batches have planted costs, and answers come from the simulation."""

from contextlib import contextmanager
from math import inf

from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.costs import BatchTime, CostCurve
from servekit_bench.tune.planning import Goal, TuneLimits
from servekit_bench.tune.probing import Probe
from servekit_bench.tune.search import Search, Tuning
from servekit_bench.tune.simulation import Workload, simulate
from servekit_bench.tune.trials import Trial

from servekit.errors import StartupError

SIZES = (1, 2, 4, 8, 16, 32, 64)
OWN = Candidate(max_batch_size=4)


def batch(size, seconds):
    return BatchTime(size, 0.0, seconds, 0.0, 0.0)


class PlantedLab:
    """``cost(size, threads)`` is what a batch costs, in seconds."""

    def __init__(self, cost, *, cores=2, cpu=0.0, wall=inf, replica_bytes=0, interrupt_at=inf):
        self.cost, self.cores, self.cpu, self.wall = cost, cores, cpu, wall
        self.replica_bytes, self.served, self.interrupt_at = replica_bytes, [], interrupt_at

    def probe(self, threads, sizes, longest_s, deadline):
        used = threads or self.cores
        tried = [size for size in sizes if size < self.wall]
        times = [batch(size, self.cost(size, used)) for size in tried for _ in range(3)]
        return Probe(
            threads=threads, curve=CostCurve(times), cpu=self.cpu * used,
            idle_bytes=self.replica_bytes, failing=self.wall if self.wall < inf else 0,
            reason="507 Out of memory" if self.wall < inf else "", largest_burst=max(tried),
        )  # fmt: skip

    @contextmanager
    def serving(self, candidate):
        self.served.append(candidate)
        if candidate.max_batch_size >= self.wall:
            raise StartupError("it does not fit")
        yield Planted(self, candidate)


class Planted:
    """A server that is simulated."""

    def __init__(self, lab, candidate):
        self.lab, self.candidate = lab, candidate

    def run(self, rate, duration_s):
        if len(self.lab.served) > self.lab.interrupt_at:
            raise KeyboardInterrupt
        threads = self.candidate.threads or max(1, self.lab.cores // self.candidate.replicas)
        work = Workload(
            seconds=lambda size: self.lab.cost(size, threads),
            cores=self.lab.cores,
            cpu=self.lab.cpu * threads,
        )
        found = simulate(work, self.candidate, rate, seed=7)
        return Trial(rate, rate, found.p50_s, found.p99_s, 0)

    def front_end_s(self):
        return 0.0


def search(lab, p99_s, *, rate=0.0, max_replicas=1, memory=1 << 40, budget_s=300.0, own=OWN):
    """Return the outcome of a search in *lab*."""
    limits = TuneLimits(lab.cores, memory, max_replicas)
    tuning = Tuning(Goal(p99_s, rate), limits, own, SIZES, budget_s)
    return Search(tuning, lab, lambda text: None).run()

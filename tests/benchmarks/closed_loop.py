# SPDX-License-Identifier: Apache-2.0
"""Closed-loop load: every server in turn, at every number of connections, several times over."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from tests.benchmarks import wrk
from tests.benchmarks.cases import APART, COPIES, MLP, PHOTO, PIPELINE, SUM, Case
from tests.benchmarks.failed import Failed
from tests.benchmarks.figures import Sample
from tests.benchmarks.running import Plan, Progress, Running, rotated, started
from tests.benchmarks.servers import Server

WARM_UP_S: Final = 1  #: before each measurement, not counted
LEVELS: Final = {
    SUM: (1, 8, 32, 128),
    PIPELINE: (1, 32, 128),
    APART: (1, 32, 128),
    PHOTO: (1, 8, 32),
    COPIES: (8, 32),
    MLP: (1, 8, 32, 128),
}
OTHER_LEVELS: Final = (8,)


def run(
    servers: Sequence[Server],
    cases: Sequence[Case],
    plan: Plan,
    progress: Progress,
    failed: Failed,
) -> list[Sample]:
    """Measure every server that can serve it with every case; another begins each round.

    A server that fails with a group of cases is asked for them no more; *failed* says why.
    """
    samples: list[Sample] = []
    for number in range(plan.rounds):
        for group in _groups(cases):
            for server in rotated(servers, number):
                served = [case for case in group if not server.refuses(case)]
                what = f"{group[0].model} as {group[0].form}"
                where = f"round {number + 1} of {plan.rounds}: {server.title}"
                with failed.alone(server, what) as is_asked:
                    found = _visit(server, served, plan, where, progress) if is_asked else []
                    samples += [sample.in_round(number + 1) for sample in found]
    return samples


def _groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Return the cases that one start of a server can serve together: one model, one form."""

    def kind(case: Case) -> tuple[str, str]:
        return (case.model, case.form)

    return [list(group) for _, group in groupby(sorted(cases, key=kind), kind)]


def _visit(
    server: Server, cases: Sequence[Case], plan: Plan, where: str, progress: Progress
) -> list[Sample]:
    """Start one server once and measure all of *cases* at every number of connections."""
    if not cases:
        return []
    samples = []
    with started(server, cases) as running:
        for case in cases:
            for connections in plan.connections or LEVELS.get(case, OTHER_LEVELS):
                progress(f"{where}, {case.key}, {connections} connections")
                samples.append(_measure(running, case, connections, plan.seconds))
    return samples


def _measure(running: Running, case: Case, connections: int, seconds: int) -> Sample:
    running.load(case, connections, WARM_UP_S)
    before = running.process.cpu_s()
    load = wrk.run(running.target(case), connections=connections, seconds=seconds)
    cpu_s = running.process.cpu_s() - before
    running.see_alive()
    return Sample.of(running.server.key, case.key, connections, load, cpu_s)

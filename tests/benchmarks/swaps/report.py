# SPDX-License-Identifier: Apache-2.0
"""The report of ``make swaps``, in the form of ``docs/benchmarks/swaps.md``."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from tests.benchmarks.swaps.client import CONNECTIONS, RATE, TIMEOUT_S
from tests.benchmarks.swaps.figures import RollBack, SwapFigures
from tests.benchmarks.swaps.subjects import STEP_S, Outcome
from tests.benchmarks.swaps.versions import WAYS
from tests.scale.table import table

LONGEST: Final = 170  #: characters of what a server said

INTRODUCTION: Final = """# Swaps under load

What users notice while a model is replaced. Written by `make swaps SWAPS_ARGS=--publish`.

Machine: {machine}

A client sends {rate:g} requests/s over {connections} keep-alive connections, at fixed moments,
while the model is replaced {swaps} times, one after another; every third new version is broken,
each in another way. There are two replicas. Every response names its version twice, from two places
of the service, and latency runs from the moment at which a request was due. The client and the
servers share the cores: compare p99 with the one before the first swap.

- *servekit*: `servekit swap` of an archive with `--shift 50 --step {step:g} --watch {step:g}
  --keep 0`, and `--install-requirements`; everything else by default.
- *Ray Serve*: `serve.run` of the new version under the same name, which replaces it in place,
  replica by replica. A cluster with two processors, three attempts of a constructor (by default
  20), a quarter of a processor for each replica, so that old and new ones fit beside each other,
  a check of health each second, half a second between two looks at a replica that leaves, and up
  to 100 requests at a time in each replica: with the default of 5, requests queued
  after the first update in an earlier run on this machine, and 5,428 of 9,403 got no answer
  within 20 s.
  Ray Serve has no archives and no examples: instead of a damaged archive its version does not
  compile, and instead of a requirement an import is missing.
"""
BROKEN: Final = """
## Broken versions

What each server said. **served** is a broken version that answered.
"""
ROLLED_BACK: Final = """
## A version that errs after it has loaded

The new version passes its example, and then one answer in five is an error. It gets half of the
requests. The bound is crossed at the third error if more than 5 % of its answers are errors. The
time runs from that answer, as the client saw it, to the end of the rollback. Ray Serve has no bound
and no rollback: the new version stays until somebody deploys another one.
"""


def introduction(machine: str, swaps: int) -> str:
    """Return how it is measured, and where it was."""
    return INTRODUCTION.format(
        machine=machine, rate=RATE, connections=CONNECTIONS, swaps=swaps, step=STEP_S
    )


def summary(
    titles: Sequence[str],
    figures: Sequence[SwapFigures],
    outcomes: Sequence[Sequence[Outcome]],
) -> str:
    """Return the table of the figures, with one column for each server."""
    good = [
        median(outcome.seconds for outcome in each if not outcome.version.way) for each in outcomes
    ]
    attempted = sum(not outcome.version.way for outcome in outcomes[0])
    broken = len(outcomes[0]) - attempted
    rows = [
        ["requests", *(each.requests for each in figures)],
        ["answers other than 200", *(statuses(each.other) for each in figures)],
        ["lost connections", *(each.lost for each in figures)],
        [f"no answer within {TIMEOUT_S:g} s", *(each.late for each in figures)],
        ["answers not from exactly one version", *(each.mixed for each in figures)],
        ["answers of a broken version", *(each.broken for each in figures)],
        ["p99 before the first swap, ms", *(1000 * each.calm_p99_s for each in figures)],
        ["p99, ms", *(1000 * each.p99_s for each in figures)],
        ["longest time without an answer, ms", *(1000 * each.gap_s for each in figures)],
        [f"good versions served, of {attempted}", *(each.swapped for each in figures)],
        [f"broken versions refused, of {broken}", *(each.refused for each in figures)],
        ["seconds of a good swap, median", *good],
    ]
    return "\n" + table(["", *titles], rows)


def statuses(other: Mapping[int, int]) -> str:
    """Return how many there were, and which."""
    which = ", ".join(f"{count:,} times {status}" for status, count in sorted(other.items()))
    return which or "0"


def broken_versions(titles: Sequence[str], outcomes: Sequence[Sequence[Outcome]]) -> str:
    """Return what each server said about each broken version."""
    rows = [
        [each[0].version.name, WAYS[each[0].version.way], *map(words, each)]
        for each in zip(*outcomes, strict=True)
        if each[0].version.way
    ]
    return BROKEN + "\n" + table(["version", "what is wrong", *titles], rows)


def words(outcome: Outcome) -> str:
    """Return what was said in one line that fits into a table."""
    if outcome.is_served:
        return "**served**"
    text = " ".join(outcome.said.split()).replace("|", "\\|")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def rolled_back(found: Sequence[RollBack]) -> str:
    """Return the table of the rollbacks, one row for each."""
    headings = ["answers of it", "errors", "s until rolled back", "s until its last error"]
    rows = [[each.answers, each.errors, each.seconds, max(0.0, each.last_s)] for each in found]
    return ROLLED_BACK + "\n" + table(headings, rows)

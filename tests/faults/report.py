# SPDX-License-Identifier: Apache-2.0
"""The table of promises: what was wanted, what was measured, and the verdict."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks.environments import ROOT
from tests.benchmarks.machine import cpu_model
from tests.faults.subjects import SERVEKIT
from tests.scale.table import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.faults.figures import Figure
    from tests.faults.playing import Outcome

PUBLISHED: Final = ROOT / "docs" / "faults.md"
LONGEST: Final = 160  #: of a measured text in the table
INTRODUCTION: Final = """\
# Faults

Written by `make faults FAULTS_ARGS=--publish`. Every row starts `servekit start` and harms it while
a client sends requests at fixed moments and records each of them; at the end, the row counts what
is left. The docstring of its function in `tests/faults/rows/` says what a row does. The promises
are in [behaviour](behaviour.md).{beside}

Machine: {machine}; {count} figures, {missed} missed; {minutes:.1f} minutes.

"""


BESIDE: Final = """ The same is done to {peers} where it makes sense:
with the same services, batches, replicas, queue and largest body, and otherwise default settings;
with fewer repetitions where it makes each of them wait to the end (`F9`, `F13`). There are figures
but no verdicts for peers, which promise other things."""


def markdown(outcomes: Sequence[Outcome], peers: Mapping[str, str]) -> str:
    """Return the report.

    :param outcomes: of servekit, and each peer's behind the same row of servekit's.
    :param peers: versions by name.
    """
    own = [outcome for outcome in outcomes if outcome.subject == SERVEKIT.name]
    figures = [figure for outcome in own for figure in outcome.figures]
    named = " and ".join(f"{name} {version}" for name, version in peers.items())
    introduction = INTRODUCTION.format(
        beside=BESIDE.format(peers=named) if peers else "",
        machine=machine(),
        count=len(figures),
        missed=sum(not figure.is_met for figure in figures),
        minutes=sum(outcome.seconds for outcome in outcomes) / 60,
    )
    sections = [
        section(outcome, [o for o in outcomes if o.key == outcome.key and o is not outcome])
        for outcome in own
    ]
    return introduction + "\n".join(sections)


def section(outcome: Outcome, beside: Sequence[Outcome] = ()) -> str:
    """Return the part of one row, with a column for each peer that has been through it."""
    head = f"## {outcome.key}: {outcome.promise}\n\n"
    if outcome.left_out:
        return f"{head}Left out: {outcome.left_out}.\n"
    played = [other for other in beside if not other.left_out]
    headings = ["figure", "wanted", "measured", "verdict", *(other.subject for other in played)]
    found = [{f.what: f for f in other.figures} for other in (outcome, *played)]
    rows = [_cells(*(each.get(what) for each in found)) for what in dict.fromkeys(chain(*found))]
    left_out = "".join(f"\n{o.subject}: {o.left_out}.\n" for o in beside if o.left_out)
    return head + table(headings, rows) + left_out


def _cells(own: Figure | None, *others: Figure | None) -> list[str]:
    """Return one line; a figure that only a peer has is of no promise."""
    what = next(figure.what for figure in (own, *others) if figure)
    verdict = "" if own is None else "kept" if own.is_met else "**MISSED**"
    cells = [what, own.wanted if own else "", cut(own.measured) if own else "", verdict]
    return cells + [cut(other.measured) if other else "" for other in others]


def cut(text: str) -> str:
    """Return one line, not too long, that is no column of its own."""
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def machine() -> str:
    """Return what somebody needs to know to compare two reports; nothing that names the machine."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpu = cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, {memory_bytes / 2**30:.1f} GiB, "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}, "
        f"load before the run {os.getloadavg()[2]:.1f}"
    )


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return every figure for programs."""
    rows = [dataclasses.asdict(outcome) for outcome in outcomes]
    return json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n"

# SPDX-License-Identifier: Apache-2.0
"""The table of promises: what was wanted, what was measured, and the verdict."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks.environments import ROOT
from tests.benchmarks.machine import cpu_model
from tests.scale.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.playing import Outcome

PUBLISHED: Final = ROOT / "docs" / "faults.md"
LONGEST: Final = 160  #: of a measured text in the table
INTRODUCTION: Final = """\
# What was done to the server, and what it did

Written by `make faults FAULTS_ARGS=--publish`. Every row starts `servekit start`, does harm to it
while a client that sends at fixed moments keeps a line for each request, and counts at the end
what is left. How a row is played is the docstring of its function in `tests/faults/rows/`; what is
promised is in [behaviour](behaviour.md).

Machine: {machine}; {count} figures, {missed} missed; {minutes:.1f} minutes.

"""


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the report."""
    figures = [figure for outcome in outcomes for figure in outcome.figures]
    introduction = INTRODUCTION.format(
        machine=machine(),
        count=len(figures),
        missed=sum(not figure.is_met for figure in figures),
        minutes=sum(outcome.seconds for outcome in outcomes) / 60,
    )
    return introduction + "\n".join(map(section, outcomes))


def section(outcome: Outcome) -> str:
    """Return the part of one row."""
    head = f"## {outcome.key}: {outcome.promise}\n\n"
    if outcome.left_out:
        return f"{head}Left out: {outcome.left_out}.\n"
    rows = [
        (f.what, f.wanted, cut(f.measured), "kept" if f.is_met else "**MISSED**")
        for f in outcome.figures
    ]
    return head + table(("figure", "wanted", "measured", "verdict"), rows)


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

# SPDX-License-Identifier: Apache-2.0
"""Writes a run to ``docs/benchmarks``: every sample, the report, a chart for each table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import charts
from tests.benchmarks.environments import ROOT
from tests.benchmarks.results import Results

DIRECTORY: Final = ROOT / "docs" / "benchmarks"
TITLE: Final = '# Benchmarks\n\nWritten by `make bench BENCH_ARGS="... --publish"`; how it is '
HOW: Final = "measured: [tests/benchmarks](../../tests/benchmarks/README.md).\n\n"


def write(
    results: Results, judged: Sequence[dict[str, Any]], text: str, directory: Path = DIRECTORY
) -> None:
    """Replace what an earlier run left in *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.svg"):
        old.unlink()
    drawn = charts.draw(results)
    for name, svg in drawn.items():
        (directory / f"{name}.svg").write_text(svg.text, encoding="utf-8")
    pictures = "".join(f"![{svg.title}]({name}.svg)\n\n" for name, svg in drawn.items())
    (directory / "results.json").write_text(results.as_json(judged), encoding="utf-8")
    (directory / "README.md").write_text(TITLE + HOW + pictures + text, encoding="utf-8")

# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.startup``: measure, print the tables."""

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.startup import imports, starts


def main() -> int:
    """Measure in rounds, so that a disturbance meets every process alike."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.startup")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    options = parser.parse_args()
    rounds = range(max(1, options.rounds))
    imported = [imports.measure(process) for _ in rounds for process in imports.COMMANDS]
    with tempfile.TemporaryDirectory() as directory:
        archive = starts.make_model(Path(directory))
        starts.measure(archive)  # fills the cache
        started = [starts.measure(archive) for _ in rounds]
    busy = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"medians of {len(rounds)}, lowest to highest in brackets; {busy}\n")
    _print_imports(imported)
    _print_starts(started)
    if options.json:
        samples = {
            "imports": [dataclasses.asdict(sample) for sample in imported],
            "starts": [dataclasses.asdict(sample) for sample in started],
        }
        options.json.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    return 0


def _print_imports(samples: Sequence[imports.ImportSample]) -> None:
    print("| imports of | wall ms | CPU ms | slowest modules, own ms |\n|---|---|---|---|")
    for process in imports.COMMANDS:
        own = [sample for sample in samples if sample.process == process]
        modules = ", ".join(f"{name} {us / 1000:.0f}" for name, us in imports.slowest(process, 4))
        walls, cpus = [s.wall_s for s in own], [s.cpu_s for s in own]
        print(f"| {process} | {_spread(walls, 1000)} | {_spread(cpus, 1000)} | {modules} |")


def _print_starts(samples: Sequence[starts.StartSample]) -> None:
    print("\n| `servekit start`, trivial model, warm cache | |\n|---|---|")
    print(f"| to the line with the URL, ms | {_spread([s.serving_s for s in samples], 1000)} |")
    print(f"| to the first 200, ms | {_spread([s.answer_s for s in samples], 1000)} |")
    print(f"| CPU until then, ms | {_spread([s.cpu_s for s in samples], 1000)} |")
    for role in samples[0].pss_bytes:
        sizes = [s.pss_bytes.get(role, 0) for s in samples]
        print(f"| PSS of the {role}, MB | {_spread(sizes, 1e-6)} |")
    totals = [sum(s.pss_bytes.values()) for s in samples]
    print(f"| PSS of all, MB | {_spread(totals, 1e-6)} |")


def _spread(values: Sequence[Any], factor: float) -> str:
    middle, low, high = (factor * f(values) for f in (median, min, max))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


if __name__ == "__main__":
    sys.exit(main())

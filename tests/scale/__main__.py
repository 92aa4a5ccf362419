# SPDX-License-Identifier: Apache-2.0
"""``make scale``: measure, print the report, and write it where it is published if asked to."""

import argparse
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.environments import debian_program
from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.machine import read_machine
from tests.scale import sections
from tests.scale.report import INTRODUCTION, TEXTS

PUBLISHED: Final = Path(__file__).parents[2] / "docs" / "benchmarks" / "scale.md"
FAILED: Final = 1  #: a server did not start, or a request was not answered right


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections that are asked for and return the exit status."""
    parser = argparse.ArgumentParser(prog="make scale SCALE_ARGS=...", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seconds", type=int, default=2, help="of one round; default: 2")
    parser.add_argument("--publish", action="store_true", help=f"write {PUBLISHED.name}")
    options = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    try:
        report = run(options.sections, sections.Plan(options.rounds, options.seconds))
    except BenchmarkError as error:
        print(f"scale: {error}", file=sys.stderr)
        return FAILED
    if options.publish:
        PUBLISHED.parent.mkdir(exist_ok=True)
        PUBLISHED.write_text(report, encoding="utf-8")
    return 0


def run(names: Sequence[str], plan: sections.Plan) -> str:
    """Measure, print each part when it is there, and return the report."""
    debian_program("wrk")
    parts: list[str] = []

    def add(part: str) -> None:
        parts.append(part)
        print(part, flush=True)

    add(INTRODUCTION.format(machine=read_machine().line(), plan=plan))
    for name in names:
        add(f"{TEXTS[name]}\n{getattr(sections, name)(plan, progress)}")
    return "\n".join(parts)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

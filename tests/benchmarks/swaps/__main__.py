# SPDX-License-Identifier: Apache-2.0
"""``make swaps``: replace the model under load, print the report, publish it if asked to."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import sleep
from typing import Final

from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.machine import read_machine
from tests.benchmarks.publish import DIRECTORY
from tests.benchmarks.swaps import report
from tests.benchmarks.swaps.client import SwapAnswer, Users
from tests.benchmarks.swaps.figures import RollBack, SwapFigures, figures_of, roll_back_of
from tests.benchmarks.swaps.subjects import SUBJECTS, Outcome, SwappedServekit, SwappedServer
from tests.benchmarks.swaps.versions import ERRS, Version, sequence

PUBLISHED: Final = DIRECTORY / "swaps.md"
FAILED: Final = 1  #: users of servekit noticed something, or a server did not start
CALM_S: Final = 5.0  #: of load before the first swap
ERRS_STEP: Final = "--step=10"  #: long enough for the bound to be crossed in it


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for, and return the exit status."""
    parser = argparse.ArgumentParser(prog="make swaps SWAPS_ARGS=...", description=__doc__)
    keys = [subject.key for subject in SUBJECTS]
    parser.add_argument("--servers", nargs="+", choices=keys, default=keys)
    parser.add_argument("--swaps", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--roll-backs", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--publish", action="store_true", help=f"write {PUBLISHED.name}")
    options = parser.parse_args(argv)
    subjects = [subject for subject in SUBJECTS if subject.key in options.servers]
    try:
        text, is_clean = run(subjects, options.swaps, options.roll_backs)
    except (BenchmarkError, ValueError) as error:
        print(f"swaps: {error}", file=sys.stderr)
        return FAILED
    print(text)
    if options.publish:
        PUBLISHED.write_text(text, encoding="utf-8")
    return 0 if is_clean else FAILED


def run(subjects: Sequence[type[SwappedServer]], swaps: int, roll_backs: int) -> tuple[str, bool]:
    """Return the report, and whether the users of servekit noticed nothing."""
    titles = [f"{subject.title} {subject.version()}" for subject in subjects]
    introduction = report.introduction(read_machine().line(), swaps)
    outcomes: list[list[Outcome]] = []
    figures: list[SwapFigures] = []
    for subject in subjects:
        answers, ended = replaced(subject, sequence(swaps))
        outcomes.append(ended)
        figures.append(figures_of(answers, ended))
    text = introduction + report.summary(titles, figures, outcomes)
    text += report.broken_versions(titles, outcomes)
    if SwappedServekit in subjects and roll_backs:
        text += report.rolled_back(rolled_back(roll_backs))
    is_clean = all(
        found.is_clean and found.swapped + found.refused == swaps
        for subject, found in zip(subjects, figures, strict=True)
        if subject is SwappedServekit
    )
    return text, is_clean


def replaced(
    subject: type[SwappedServer], versions: Sequence[Version], *options: str
) -> tuple[list[SwapAnswer], list[Outcome]]:
    """Replace the model by each of *versions* under load."""
    outcomes = []
    with (
        tempfile.TemporaryDirectory(prefix="sw", ignore_cleanup_errors=True) as directory,
        subject(Path(directory)) as server,
        Users(server.port) as users,
    ):
        sleep(CALM_S)
        for version in versions:
            outcome = server.swap(version, *options)
            said = outcome.said.replace(f"{directory}/", "")
            outcomes.append(outcome._replace(said=said))
            state = "served" if outcome.is_served else said
            print(
                f"{subject.key} {version.name} {version.way} {outcome.seconds:.1f} s: {state}",
                file=sys.stderr,
            )
    return users.answers, outcomes


def rolled_back(count: int) -> list[RollBack]:
    """Return how fast servekit rolls a version back that errs, *count* times."""
    versions = [Version(f"{number + 2}", ERRS) for number in range(count)]
    answers, outcomes = replaced(SwappedServekit, versions, ERRS_STEP)
    return [roll_back_of(answers, outcome) for outcome in outcomes]


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""``make faults``: play every row, print the table, exit with 1 if any promise is missed."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tests.benchmarks.errors import Missing
from tests.faults.client import pin
from tests.faults.playing import play
from tests.faults.report import PUBLISHED, as_json, markdown, section
from tests.faults.rows import ROWS, promise
from tests.faults.subjects import PEERS, SERVEKIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.subjects import Subject

MISSED: Final = 1
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Play the rows that are asked for and return the exit status."""
    options = parse(argv)
    signal.signal(signal.SIGTERM, interrupt)  # every server is ended on the way out
    try:
        return run(options)
    except KeyboardInterrupt:
        print("faults: interrupted; every server was ended", file=sys.stderr)
        return INTERRUPTED


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    rows = "\n".join(f"  {key:6} {promise(key)}" for key in ROWS)
    parser = argparse.ArgumentParser(
        prog="make faults FAULTS_ARGS=...",
        description=__doc__,
        epilog=f"rows:\n{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=chosen, default=list(ROWS), help="rows, such as F1,F5")
    parser.add_argument("--short", action="store_true", help="small counts, as in make test")
    parser.add_argument("--beside", choices=PEERS, help="do the same to this server too")
    parser.add_argument("--pin", action="store_true", help="keep the client on the last core")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--publish", action="store_true", help=f"write docs/{PUBLISHED.name}")
    return parser.parse_args(argv)


def chosen(text: str) -> list[str]:
    """Return the rows of ``F1,F5``; F3 is part of F2-F3."""
    wanted = [part.strip().upper() for part in text.split(",")]
    unknown = [part for part in wanted if not any(part in names(key) for key in ROWS)]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}"
        )
    return [key for key in ROWS if names(key) & set(wanted)]


def names(key: str) -> set[str]:
    """Return what a row may be called by, in capitals."""
    return {key.upper(), *key.upper().split("-")}


def run(options: argparse.Namespace) -> int:
    """Play, print each part when it is there, and write what is asked for."""
    if options.pin:
        pin(-1)
    peers, versions = prepare(options.beside)
    outcomes = []
    for key in options.only:
        say(f"{key}: {promise(key)}")
        row = [play(key, is_short=options.short, say=say)]
        row += [play(key, is_short=options.short, say=say, subject=peer) for peer in peers]
        outcomes += row
        print(section(row[0], row[1:]), flush=True)
        say(f"{key}: {' + '.join(f'{each.seconds:.0f}' for each in row)} s")
    if options.json:
        options.json.write_text(as_json(outcomes), encoding="utf-8")
    if options.publish:
        PUBLISHED.write_text(markdown(outcomes, versions), encoding="utf-8")
    missed = [
        f"{each.key} {figure.what}"
        for each in outcomes
        if each.subject == SERVEKIT.name
        for figure in each.missed
    ]
    for what in missed:
        say(f"missed: {what}")
    return MISSED if missed else 0


def prepare(name: str | None) -> tuple[list[Subject], dict[str, str]]:
    """Return the peer that is asked for, installed, and its version; none if it cannot be had."""
    if name is None:
        return [], {}
    try:
        return [PEERS[name]], {name: PEERS[name].prepare()}
    except Missing as reason:
        say(f"without {name}: {reason}")
        return [], {}


def say(text: str) -> None:
    """Show progress, apart from the table."""
    print(f"faults: {text}", file=sys.stderr, flush=True)


def interrupt(_number: int, _frame: object) -> NoReturn:
    """Leave by an exception."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

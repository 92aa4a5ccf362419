# SPDX-License-Identifier: Apache-2.0
"""``servekit top``: what each version of each model does, second by second."""

import argparse
import json
import sys
from collections.abc import Sequence
from time import sleep

import msgspec
from servekit_archiver.cli.output import human_bytes

from servekit.cli.output.live_text import LiveText
from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.cli.server.rates import VersionRates, observe, rates
from servekit.extension.commands import Run

__all__ = ["top"]

EPILOG = f"""\
On a terminal the table is drawn again every --interval seconds until Ctrl-C; elsewhere it is
printed once, after one interval. Memory is that of the workers; pages that they share count for
each.

{finding.ABOUT}
examples:
  servekit top
  servekit top --interval 10
  servekit top --json                       once, for a program
"""
HEAD = (
    *("model", "version", "replicas", "requests/s", "5xx/s", "p50", "p99", "waiting"),
    *("CPU", "memory"),
)


def top(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="default 2")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print or draw the table.

    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: the server refuses the request.
    """
    server = finding.find_server(parsed)
    is_live = sys.stdout.isatty() and not parsed.json
    text, before = LiveText(sys.stdout), observe(server)
    try:
        while True:
            sleep(parsed.interval)
            after = observe(server)
            found, before = rates(before, after), after
            if not is_live:
                print(_json(found) if parsed.json else _table(found))
                return OK
            text.draw(_table(found).splitlines())
    except KeyboardInterrupt:  # the way to end it
        return OK


def _json(found: Sequence[VersionRates]) -> str:
    return json.dumps(msgspec.to_builtins(found), indent=2)


def _table(found: Sequence[VersionRates]) -> str:
    return table(HEAD, [_cells(each) for each in found])


def _cells(each: VersionRates) -> list[object]:
    return [
        each.model,
        each.version,
        f"{each.serving}/{each.replicas}",
        f"{each.requests_per_s:.1f}",
        f"{each.errors_per_s:.1f}",
        _milliseconds(each.p50_s),
        _milliseconds(each.p99_s),
        each.waiting,
        f"{100 * each.cpu:.0f} %",
        human_bytes(each.memory_bytes),
    ]


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.3g} ms"

# SPDX-License-Identifier: Apache-2.0
"""``servekit logs``: the last lines of a running server's log, and those that follow."""

import argparse
import json
from typing import Any
from urllib.parse import quote

from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.extension.commands import Run

__all__ = ["logs"]

EPILOG = f"""\
A server keeps about the last mebibyte of its log in memory until it stops. The whole log is what
`servekit start` prints: journald or the container's runtime has it, for example.

{finding.ABOUT}
examples:
  servekit logs                             the last 100 lines
  servekit logs digits -n 20                of one model and its workers
  servekit logs --follow                    until Ctrl-C
  servekit logs --json --follow             one object for each line
"""
WAIT_S = 10  #: for each request of ``--follow``


def logs(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    parser.add_argument("model", nargs="?", metavar="MODEL", default="", help="default: everything")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more lines")
    parser.add_argument(
        "-n", "--lines", type=int, default=100, metavar="N", help="how many (default 100)"
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Print the lines.

    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: the server refuses the request.
    """
    server = finding.find_server(parsed)
    query = f"/logs?model={quote(parsed.model, safe='')}"
    page = server.get(f"{query}&limit={parsed.lines}")
    _print(page, is_json=parsed.json)
    try:
        while parsed.follow:
            page = server.get(f"{query}&after={page['next']}&limit=1000000&wait={WAIT_S}")
            _print(page, is_json=parsed.json)
    except KeyboardInterrupt:  # the way to end it
        pass
    return OK


def _print(page: dict[str, Any], *, is_json: bool) -> None:
    for line in page["lines"]:
        print(json.dumps(line) if is_json else _shown(line), flush=True)


def _shown(line: dict[str, Any]) -> str:
    """Return *line* as ``servekit start`` prints it, after its time."""
    bar = " |" if line["event"] == "output" else ""
    return f"{line['time']}  {line['subject']}{bar} {line['message']}"

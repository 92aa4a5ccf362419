# SPDX-License-Identifier: Apache-2.0
"""``servekit reload``: has a running server load what has changed."""

import argparse
import json

from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding
from servekit.extension.commands import Run

__all__ = ["reload"]

EPILOG = f"""\
This has the same effect as SIGHUP: models that have changed are loaded alongside the old ones and
take over when they are ready; certificates and token files are read again. The command does not
wait.

{finding.ABOUT}
examples:
  servekit reload                           the only running server
  servekit reload --run-dir /run/servekit --pid 4711
"""


def reload(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    finding.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Ask, and say that it was asked.

    :raises NoServer: no such server runs, or it does not answer.
    :raises RequestRefused: the server refuses the request.
    """
    server = finding.find_server(parsed)
    status, answer = server.ask("/reload", "POST")
    server.check(status, answer)
    if parsed.json:
        print(json.dumps({"pid": server.pid, **answer}, indent=2))
    else:
        print(f"{server.shown} reloads; its log says how each model fares")
    return OK

# SPDX-License-Identifier: Apache-2.0
"""``servekit reload``: has a running server load what has changed."""

import argparse
import json

from servekit.cli.parsing.exit_status import OK
from servekit.cli.server import finding, operating
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run

__all__ = ["reload"]

EPILOG = f"""\
Without MODEL this has the same effect as SIGHUP, and the command does not wait: all models that
have changed are loaded alongside the old ones and take over when they are ready; certificates and
token files are read again. With MODEL it is an operation on that model.

{operating.ABOUT}
examples:
  servekit reload                           what SIGHUP does
  servekit reload digits                    one model, and wait for it
  servekit reload --run-dir /run/servekit --pid 4711
"""


def reload(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    operating.add_arguments(parser)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="default: all models")
    return run


def run(parsed: argparse.Namespace) -> int:
    """Ask, and say that it was asked; or reload one model.

    :raises StartupError: no such server runs, or the model could not be loaded.
    """
    if parsed.model is not None:
        return operating.operate(parsed, "POST", model_path(parsed.model, "reload"))
    server = finding.find_server(parsed)
    status, answer = server.ask("/reload", "POST")
    server.check(status, answer)
    if parsed.json:
        print(json.dumps({"pid": server.pid, **answer}, indent=2))
    else:
        print(f"{server.shown} is reloading; see its log for the result of each model")
    return OK

# SPDX-License-Identifier: Apache-2.0
"""``servekit rollback``: makes the version before the default version the default again."""

import argparse

from servekit.cli.server import operating
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run

__all__ = ["rollback"]

EPILOG = f"""\
While the version is still loaded, it answers at once; otherwise it is loaded first.

{operating.ABOUT}
examples:
  servekit rollback digits
"""


def rollback(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL")
    operating.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Roll back, and show the steps.

    :raises StartupError: no such server runs, or there is no version before.
    """
    return operating.operate(parsed, "POST", model_path(parsed.model, "rollback"))

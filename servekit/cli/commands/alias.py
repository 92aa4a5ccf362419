# SPDX-License-Identifier: Apache-2.0
"""``servekit alias``: gives a version of a model another name, or takes it away."""

import argparse

from servekit.cli.server import operating
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run

__all__ = ["alias"]

EPILOG = f"""\
An alias stands for a version in paths, /MODEL/versions/ALIAS/predict, and in commands. `servekit
models show MODEL` lists the aliases.

{operating.ABOUT}
examples:
  servekit alias digits canary 2.0
  servekit alias digits canary --remove
"""


def alias(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("alias", metavar="ALIAS")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("version", metavar="VERSION", nargs="?", help="a loaded version")
    target.add_argument("--remove", action="store_true", help="remove the alias")
    operating.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Set or remove it.

    :raises StartupError: no such server runs, or it refuses.
    """
    body = {"aliases": {parsed.alias: "" if parsed.remove else parsed.version}}
    return operating.operate(parsed, "PUT", model_path(parsed.model), body)

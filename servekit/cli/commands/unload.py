# SPDX-License-Identifier: Apache-2.0
"""``servekit unload``: has a running server stop serving a model, or one version of it."""

import argparse

from servekit.cli.server import operating
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run

__all__ = ["unload"]

EPILOG = f"""\
Requests that have arrived are answered first.

{operating.ABOUT}
examples:
  servekit unload digits                    the model
  servekit unload digits 1.0                one version, which must not be the default
"""


def unload(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "version", metavar="VERSION", nargs="?", help="or an alias; default: the whole model"
    )
    operating.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Unload it, and show the steps.

    :raises StartupError: no such server runs, or it refuses.
    """
    below = ("versions", parsed.version) if parsed.version else ()
    return operating.operate(parsed, "DELETE", model_path(parsed.model, *below))

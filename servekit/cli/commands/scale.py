# SPDX-License-Identifier: Apache-2.0
"""``servekit scale``: changes the number of replicas of a model."""

import argparse

from servekit.cli.server import operating
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run
from servekit.settings.arguments import count, whole

__all__ = ["scale"]

EPILOG = f"""\
{operating.ABOUT}
examples:
  servekit scale digits 4
  servekit scale digits 1:4                 let the server choose between 1 and 4
  servekit scale digits 2 --stage decode    one stage of a model with several
"""


def scale(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("replicas", metavar="REPLICAS", type=replicas, help="a number, or MIN:MAX")
    parser.add_argument("--stage", metavar="NAME", default="", help="default: all stages")
    parser.add_argument("--version", metavar="VERSION", default="", help="default: all versions")
    operating.add_arguments(parser)
    return run


def replicas(text: str) -> int | dict[str, int]:
    """Parse ``4`` or ``1:4``."""
    low, separator, high = text.partition(":")
    if not separator:
        return int(count(low))
    bounds = {"min": int(whole(low)), "max": int(count(high))}
    if bounds["min"] > bounds["max"]:
        raise argparse.ArgumentTypeError(f"{text!r}: the maximum is below the minimum")
    return bounds


def run(parsed: argparse.Namespace) -> int:
    """Change it, and show the steps.

    :raises StartupError: no such server runs, or it refuses.
    """
    body = {"replicas": parsed.replicas, "stage": parsed.stage, "version": parsed.version}
    return operating.operate(parsed, "PUT", model_path(parsed.model), body)

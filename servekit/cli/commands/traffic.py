# SPDX-License-Identifier: Apache-2.0
"""``servekit traffic``: decides which versions of a model answer."""

import argparse
from typing import Any

from servekit.cli.server import operating
from servekit.cli.server.connection import model_path
from servekit.extension.commands import Run
from servekit.settings.arguments import percent, whole

__all__ = ["traffic"]

EPILOG = f"""\
Weights are relative to their sum. Without weights the default version answers everything.

{operating.ABOUT}
examples:
  servekit traffic digits 1.0=90 2.0=10
  servekit traffic digits stable=90 canary=10 --sticky X-User
  servekit traffic digits --mirror 2.0 --mirror-percent 20
  servekit traffic digits --reset           everything to the default version
"""
RESET = {"weights": {}, "sticky": "", "mirror": ""}


def traffic(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "weights",
        metavar="VERSION=WEIGHT",
        nargs="*",
        type=weight,
        help="how much of the traffic a version or an alias gets",
    )
    parser.add_argument(
        "--sticky", metavar="HEADER", help='header that chooses the version; "" for none'
    )
    parser.add_argument(
        "--mirror", metavar="VERSION", help='it gets copies of the requests; "" for none'
    )
    parser.add_argument("--mirror-percent", metavar="N", type=percent, help="share that is copied")
    parser.add_argument("--reset", action="store_true", help="everything to the default version")
    operating.add_arguments(parser)
    return lambda parsed: run(parser, parsed)


def weight(text: str) -> tuple[str, int]:
    """Parse ``2.0=10``."""
    version, _, number = text.rpartition("=")
    if not version:
        raise argparse.ArgumentTypeError(f"{text!r} is not VERSION=WEIGHT, such as 2.0=10")
    return version, int(whole(number))


def run(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    """Change it.

    :raises StartupError: no such server runs, or it refuses.
    """
    body = (RESET if parsed.reset else {}) | asked(parsed)
    if not body:
        parser.error("say what to change: weights, --sticky, --mirror or --reset")
    return operating.operate(parsed, "PUT", model_path(parsed.model), body)


def asked(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return what the arguments change, by the names of the fields."""
    given = {name: getattr(parsed, name) for name in ("sticky", "mirror", "mirror_percent")}
    changes = {name: value for name, value in given.items() if value is not None}
    return changes | ({"weights": dict(parsed.weights)} if parsed.weights else {})

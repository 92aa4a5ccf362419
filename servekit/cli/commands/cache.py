# SPDX-License-Identifier: Apache-2.0
"""``servekit cache``: unpacked archives, assets and environments."""

import argparse

from servekit.cli.cached.entries import ASSET, ENVIRONMENT, MODEL
from servekit.cli.cached.listing import list_or_prune
from servekit.extension.commands import Run

__all__ = ["cache"]

EPILOG = """\
What a running server uses is never removed. Everything else is made again when a model needs it:
archives are unpacked, assets fetched and environments built.

examples:
  servekit cache list                       sizes, last use, and what running servers use
  servekit cache prune --unused-for 30      remove what has not been used for 30 days
  servekit cache prune --dry-run
"""


def cache(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    return list_or_prune(parser, (MODEL, ASSET, ENVIRONMENT))

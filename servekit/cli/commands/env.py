# SPDX-License-Identifier: Apache-2.0
"""``servekit env``: the environments of models."""

import argparse

from servekit.cli.cached.entries import ENVIRONMENT
from servekit.cli.cached.listing import list_or_prune
from servekit.extension.commands import Run

__all__ = ["env"]

EPILOG = """\
An environment holds the packages of a requirements file or a lock; models with the same ones share
it. What a running server uses is never removed. An environment is built again when a model needs
it, which may take an index.

examples:
  servekit env list                         packages, sizes, and what running servers use
  servekit env list --json
  servekit env prune --unused-for 30        remove what has not been used for 30 days
"""


def env(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    return list_or_prune(parser, (ENVIRONMENT,))

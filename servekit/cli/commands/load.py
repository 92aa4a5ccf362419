# SPDX-License-Identifier: Apache-2.0
"""``servekit load``: has a running server serve one more model, or one more version."""

import argparse

from servekit.cli.server import operating
from servekit.cli.server.settings import absolute_source, add_settings, given_settings
from servekit.extension.commands import Run

__all__ = ["load"]

EPILOG = f"""\
A version of a model that is served already is loaded beside the others and gets no traffic:
`servekit swap` or `servekit traffic` gives it some. The server reads SOURCE, so it needs access to
it.

{operating.ABOUT}
examples:
  servekit load digits.mar                  a new model
  servekit load digits-2.mar --name digits  one more version of digits, without traffic
  servekit load digits.mar --set replicas=2 --set env.EMB_MODEL=small
  servekit load s3://models/digits.mar --no-wait
"""


def load(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("source", metavar="SOURCE", help="an archive, a model directory or a URL")
    parser.add_argument("--name", metavar="NAME", default="", help="default: that of the archive")
    add_settings(parser)
    operating.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Load it, and show the steps.

    :raises StartupError: no such server runs, or it cannot load the model.
    """
    body = {
        "source": absolute_source(parsed.source),
        "model": parsed.name,
        "settings": given_settings(parsed),
    }
    return operating.operate(parsed, "POST", "/models", body)

# SPDX-License-Identifier: Apache-2.0
"""``servekit swap``: replaces the default version of a model once the new one has proved itself."""

import argparse

from servekit.cli.server import operating
from servekit.cli.server.connection import model_path
from servekit.cli.server.settings import absolute_source, add_settings, given_settings
from servekit.extension.commands import Run
from servekit.ipc.operations import Swap
from servekit.settings.arguments import duration_or_zero, percent, ratio

__all__ = ["swap"]

EPILOG = f"""\
The new version is verified, loaded beside the old one, and tried with the examples of its archive.
Then it gets the traffic, in steps if --shift says so, and is watched: above --max-error-rate or
--max-latency the old version gets the traffic back. The old version stays loaded for --keep
seconds, so that `servekit rollback` takes effect at once.

{operating.ABOUT}
examples:
  servekit swap digits digits-2.mar
  servekit swap digits digits-2.mar --shift 10 50 --step 30 --max-latency 0.2
  servekit swap digits --version canary     a version that is loaded already
  servekit swap digits big-2.mar --one-by-one
"""
TIME = ("TIME", duration_or_zero)
#: flags with a number: name of the field, placeholder, parser, help
NUMBERS = (
    ("step_s", *TIME, "how long each share of --shift lasts"),
    ("watch_s", *TIME, "how long the new version is watched once it has all traffic"),
    ("max_error_rate", "SHARE", ratio, "roll back above this share of 5xx responses"),
    ("max_latency_s", *TIME, "roll back above this 99th percentile; 0 sets no bound"),
    ("keep_s", *TIME, "how long the old version stays loaded"),
)


def swap(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument(
        "source", metavar="SOURCE", nargs="?", help="an archive, a model directory or a URL"
    )
    parser.add_argument(
        "--version", metavar="VERSION", help="a version or an alias that is loaded already"
    )
    add_settings(parser)
    parser.add_argument(
        "--one-by-one", action="store_true", help="replace replica by replica, to save memory"
    )
    parser.add_argument(
        "--shift",
        type=percent,
        nargs="+",
        metavar="PERCENT",
        default=[],
        help="shares of the traffic, one after another, before all of it",
    )
    defaults = Swap(model="")
    for name, metavar, read, text in NUMBERS:
        default = getattr(defaults, name)
        flag = "--" + name.removesuffix("_s").replace("_", "-")
        told = f"{text} (default {default:g})"
        parser.add_argument(flag, dest=name, metavar=metavar, type=read, default=default, help=told)
    operating.add_arguments(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Swap, and show the steps.

    :raises StartupError: no such server runs, or the old version stays.
    """
    body = {
        "source": absolute_source(parsed.source) if parsed.source else "",
        "version": parsed.version or "",
        "settings": given_settings(parsed),
        "one_by_one": parsed.one_by_one,
        "shift": parsed.shift,
        **{name: getattr(parsed, name) for name, *_ in NUMBERS},
    }
    return operating.operate(parsed, "POST", model_path(parsed.model, "swap"), body)

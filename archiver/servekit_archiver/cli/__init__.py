# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive``: parses the command line, calls the library, prints."""

import argparse
import os
import sys
from collections.abc import Sequence

from servekit_archiver.cli.exit_status import INTERRUPTED, REFUSED
from servekit_archiver.cli.parser import Parser, add_command
from servekit_archiver.version import FORMAT, __version__

__all__ = ["COMMANDS", "create_parser", "main"]

#: command to what it does; ``commands`` has a function of the same name, which adds its arguments
COMMANDS = {
    "init": "create a working model directory to start from",
    "build": "pack a model directory into an archive",
    "inspect": "show the content of an archive, without reading its files",
    "verify": "read all of an archive and compare it with its manifest",
    "extract": "unpack the model directory of an archive",
}
EXAMPLES = """examples:
  %(prog)s init hello           # a model directory to start from
  %(prog)s build hello          # -> hello.mar
  %(prog)s inspect hello.mar
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status (see ``exit_status``)."""
    args = create_parser().parse(argv)
    try:
        status = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; keep the flush at exit quiet, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    return int(status)


def create_parser() -> Parser:
    """Return the parser of all commands."""
    from servekit_archiver.cli import commands

    parser = Parser(
        prog="servekit-archive",
        description="Build, inspect, verify and unpack model archives.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"%(prog)s {__version__} (archive format {FORMAT})"
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, summary in COMMANDS.items():
        added = add_command(subparsers, name, summary)
        added.set_defaults(run=getattr(commands, name)(added))
    return parser

# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive``: parses the command line, calls the library, prints."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from servekit_archiver.cli.completion import complete, is_completing
from servekit_archiver.cli.exit_status import INTERRUPTED, REFUSED
from servekit_archiver.cli.parser import Parser, add_command
from servekit_archiver.cli.standard_output import with_standard_output
from servekit_archiver.errors import ArchiveError
from servekit_archiver.version import FORMAT, __version__

__all__ = ["COMMANDS", "create_parser", "main"]

#: command to what it does; ``commands`` has a function of the same name, which adds its arguments
COMMANDS = {
    "init": "create a working model directory to start from",
    "build": "pack a model directory into an archive",
    "inspect": "show the content of an archive, without reading its files",
    "verify": "read all of an archive and compare it with its manifest",
    "extract": "unpack the model directory of an archive",
    "migrate": "turn a model of another server into an archive, with a report",
    "sbom": "list the packages, files and assets of an archive as CycloneDX",
    "completion": "print code for a shell that completes commands, flags and models",
}
EXAMPLES = """examples:
  %(prog)s init hello           # a model directory to start from
  %(prog)s build hello          # -> hello.mar
  %(prog)s inspect hello.mar
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status (see ``exit_status``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in arguments if not word.startswith("-")), None)
    try:
        return with_standard_output("servekit-archive", partial(_run, command, arguments))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(command: str | None, arguments: Sequence[str]) -> int:
    if is_completing():
        complete(create_parser)
    try:
        args = create_parser(command).parse(arguments)
        return int(args.run(args))
    except ArchiveError as error:
        sys.stderr.write(f"servekit-archive: {error}\n")
        return REFUSED


def create_parser(command: str | None = None) -> Parser:
    """Return the parser; only *command* gets its arguments.

    :raises ArchiveError: *command* is a plugin's and cannot be used.
    """
    from servekit_archiver.cli import commands, plugin_commands

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
        if name == command:
            added.set_defaults(run=getattr(commands, name)(added))
    if command not in COMMANDS:
        for name, offers in sorted(plugin_commands.installed().items()):
            ((plugin, offered), *_) = offers
            added = add_command(subparsers, name, offered.summary, f" (plugin {plugin})")
            if name == command:
                added.set_defaults(run=plugin_commands.configured(offers, added))
    return parser

# SPDX-License-Identifier: Apache-2.0
"""The parser of ``servekit``; a command is imported only when it is used."""

import argparse
from importlib import import_module

from servekit_archiver.cli.parser import Parser, add_command

from servekit import __version__
from servekit.cli.parsing.command_table import BUILT_IN, CommandTable
from servekit.errors import PluginError
from servekit.extension.commands import Command, Configure, Run

__all__ = ["create_parser"]

EXAMPLES = """\
examples:
  servekit init hello                        create a model directory
  servekit start hello                       serve it on http://127.0.0.1:8080
  servekit start --help                      all options, with units and defaults
  servekit check hello                       test a model without serving it
  servekit build hello                       pack it into the archive hello.mar
  servekit start hello.mar two=b.mar --port 9000
  servekit status                            show the state of the running server
  servekit describe hello.mar                describe its inputs and outputs
"""


def create_parser(command: str | None = None, table: CommandTable = BUILT_IN) -> Parser:
    """Return the parser; only *command* gets its arguments, the others stay unimported.

    :raises PluginError: *command* is a plugin's and cannot be imported.
    """
    parser = Parser(
        prog="servekit",
        description="Build model archives and serve them over HTTP.",
        epilog="\n".join([EXAMPLES, *(f"warning: {line}" for line in table.problems.values())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"servekit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, each in table.commands.items():
        plugin = table.plugins.get(name, "")
        added = add_command(commands, name, each.summary, f" (plugin {plugin})" if plugin else "")
        if name == command:
            added.set_defaults(run=_configured(each, added, plugin))
    return parser


def _configured(command: Command, parser: Parser, plugin: str) -> Run:
    """Add the arguments of *command* to *parser*; return what runs it."""
    module, _, attribute = command.target.partition(":")
    try:
        configure: Configure = getattr(import_module(module), attribute)
        if command.asks_server:
            from servekit.cli.server import finding

            finding.add_arguments(parser)
            parser.set_defaults(find_server=finding.find_server)
        return configure(parser)
    except Exception as error:
        if not plugin:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(f"command {command.name} of plugin {plugin}: {reason}") from error

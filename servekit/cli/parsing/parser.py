# SPDX-License-Identifier: Apache-2.0
"""What ``servekit`` takes. One file per command, imported only when it is used."""

import argparse
import difflib
import re
from importlib import import_module
from typing import NoReturn

from servekit import __version__
from servekit.cli.parsing.exit_status import USAGE

__all__ = ["ARCHIVE_COMMANDS", "COMMANDS", "create_parser"]

#: the commands of ``servekit-archive``, which takes them over whole, and what they do
ARCHIVE_COMMANDS = {
    "init": "write a model directory that builds and serves as it is",
    "build": "pack a model directory into an archive",
    "inspect": "show what is in an archive; reads no file's content",
    "verify": "read an archive whole and compare it with its manifest",
    "extract": "unpack the model directory of an archive",
}
#: command to what it does; ``servekit.cli.commands.COMMAND`` adds its arguments and runs it
COMMANDS = {
    "start": "serve models until told to stop",
    "check": "load a model once, run its examples, and measure batches",
    "assets": "fetch or make the files that a model needs and its archive does not hold",
    "describe": "say what a model takes and gives, without loading it",
    "snippet": "write a call of a model for curl, Python or JavaScript",
    "dockerfile": "write what a container image of models is built from",
    "plugins": "list the installed plugins and what they offer",
    "status": "say whether a running server is healthy, and how each model is",
    "models": "list the models of a running server, worker by worker",
    "reload": "have a running server load what has changed of its models",
    "crashes": "show which workers of a running server crashed, hung or could not load",
}

#: how argparse begins what it says of one
WRONG_COMMAND = re.compile("argument COMMAND: invalid choice: '(.*?)' ")

EXAMPLES = """\
examples:
  servekit init hello                        a model directory to start from
  servekit start hello                       serve it on http://127.0.0.1:8080
  servekit start --help                      every option, with its unit and default
  servekit check hello                       try a model without serving it
  servekit build hello                       hello.mar: one file, every byte checked
  servekit start hello.mar two=b.mar --port 9000
  servekit status                            how the server that runs here is
  servekit describe hello.mar                what it takes and gives
  servekit dockerfile hello.mar -o image     for Docker, compose and Kubernetes
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; twenty options of usage would bury it."""

    def error(self, message: str) -> NoReturn:
        """End with the status of a usage error."""
        self.exit(USAGE, f"{self.prog}: {self._in_words(message)}\n")

    def _in_words(self, message: str) -> str:
        if wrong := WRONG_COMMAND.match(message):
            message, unknown = f"unknown command {wrong[1]!r}", wrong[1]
            known = [*ARCHIVE_COMMANDS, *COMMANDS]
        else:
            unknown = message.removeprefix("unrecognized arguments: ").split("=")[0].split()[0]
            flags = (flag for action in self._actions for flag in action.option_strings)
            known = [flag for flag in flags if flag not in ("-h", "--help")]
        close = difflib.get_close_matches(unknown, known, n=1)
        return message + (f", did you mean {close[0]}?" if close else f" (see {self.prog} --help)")


def create_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; only *command* gets its arguments, the others stay unimported."""
    parser = Parser(
        prog="servekit",
        description="Make model archives, and serve them over HTTP.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"servekit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, summary in (ARCHIVE_COMMANDS | COMMANDS).items():
        added = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            module = import_module(f"servekit.cli.commands.{name}")
            module.add_arguments(added)
            added.set_defaults(run=module.run)
            parser.error = added.error  # type: ignore[method-assign] # knows the command's flags
    return parser

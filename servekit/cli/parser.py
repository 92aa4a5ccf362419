# SPDX-License-Identifier: Apache-2.0
"""What ``servekit`` takes. One file per command, imported only when it is used."""

import argparse
import difflib
import re
from importlib import import_module
from typing import NoReturn

from servekit import __version__
from servekit.cli.exit_status import USAGE

__all__ = ["COMMANDS", "create_parser"]

#: command to what it does; the module ``servekit.cli.COMMAND`` adds its arguments and runs it
COMMANDS = {
    "start": "serve models until told to stop",
    "check": "load a model once, run its examples, and measure batches",
    "assets": "fetch or make the files that a model needs and its archive does not hold",
    "describe": "say what a model takes and gives, without loading it",
    "snippet": "write a call of a model for curl, Python or JavaScript",
    "dockerfile": "write what a container image of models is built from",
    "plugins": "list the installed plugins and what they offer",
    "crashes": "show which workers of a running server crashed, hung or could not load",
}

#: how argparse begins what it says of one
WRONG_COMMAND = re.compile("argument COMMAND: invalid choice: '(.*?)' ")

EXAMPLES = """\
examples:
  servekit start digits.mar                  serve an archive on http://127.0.0.1:8080
  servekit start --models a.mar two=b.mar --port 9000
  servekit start --help                      every option, with its unit and default
  servekit check ./model_directory            try a model without serving it
  servekit describe digits.mar               what it takes and gives
  servekit snippet digits.mar --format python
  servekit dockerfile digits.mar -o image    for Docker, compose and Kubernetes
  servekit plugins                           what is installed
  servekit crashes                           what went wrong in the server that runs

To build an archive: servekit-archive build DIRECTORY
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; twenty options of usage would bury it."""

    def error(self, message: str) -> NoReturn:
        """End with the status of a usage error."""
        self.exit(USAGE, f"{self.prog}: {message}{self._hint(message)}\n")

    def _hint(self, message: str) -> str:
        if wrong := WRONG_COMMAND.match(message):
            unknown, known = wrong[1], list(COMMANDS)
        else:
            unknown = message.removeprefix("unrecognized arguments: ").split("=")[0].split()[0]
            known = [flag for action in self._actions for flag in action.option_strings]
        close = difflib.get_close_matches(unknown, known, n=1)
        return f", did you mean {close[0]}?" if close else f" (see {self.prog} --help)"


def create_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser; only *command* gets its arguments, the others stay unimported."""
    parser = Parser(
        prog="servekit",
        description="Serve model archives over HTTP.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"servekit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, summary in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            module = import_module(f"servekit.cli.{name}")
            module.add_arguments(added)
            added.set_defaults(run=module.run)
            parser.error = added.error  # type: ignore[method-assign] # knows the command's flags
    return parser

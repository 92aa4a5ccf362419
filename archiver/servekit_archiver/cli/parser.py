# SPDX-License-Identifier: Apache-2.0
"""The parser of the command lines of ``servekit-archive`` and ``servekit``."""

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from servekit_archiver.cli.exit_status import USAGE
from servekit_archiver.spelling import closest

__all__ = ["Parser", "add_command"]

UNKNOWN = "unrecognized arguments: "
#: how argparse begins its message about an unknown command
WRONG_COMMAND = re.compile("argument COMMAND: invalid choice: '(.*?)' ")


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, and suggests what may have been meant."""

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Return *arguments* parsed; one that is unknown is an error of the command."""
        parsed: argparse.Namespace
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            self._commands()[parsed.command].error(UNKNOWN + shlex.join(unknown))
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return *args* parsed, and those of a command that has commands; others are errors."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and not any(each.nargs == argparse.PARSER for each in self._actions):
            self.error(UNKNOWN + shlex.join(unknown))
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """End with the status of a usage error."""
        self.exit(USAGE, f"{self.prog}: {self._in_words(message)}\n")

    def _commands(self) -> dict[str, argparse.ArgumentParser]:
        (commands,) = (each for each in self._actions if each.nargs == argparse.PARSER)
        return commands.choices  # type: ignore[return-value]

    def _in_words(self, message: str) -> str:
        word, known = "", list[str]()
        if wrong := WRONG_COMMAND.match(message):
            message, word, known = f"unknown command {wrong[1]!r}", wrong[1], [*self._commands()]
        elif message.startswith(UNKNOWN):
            word = message.removeprefix(UNKNOWN).split()[0].split("=")[0]
            flags = (flag for action in self._actions for flag in action.option_strings)
            known = [flag for flag in flags if flag not in ("-h", "--help")]
        if meant := closest(word, known):
            return f"{message}, did you mean {meant}?"
        return f"{message} (see {self.prog} --help)"


def add_command(subparsers: Any, name: str, summary: str, suffix: str = "") -> Parser:
    """Add the parser of a command, without its arguments.

    :param subparsers: what ``ArgumentParser.add_subparsers`` returned.
    :param summary: what the command does: one line without a capital letter or a full stop.
    :param suffix: put after it in the list of commands.
    """
    parser: Parser = subparsers.add_parser(
        name,
        help=summary + suffix,
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(program=parser.prog.removesuffix(f" {name}"))
    return parser

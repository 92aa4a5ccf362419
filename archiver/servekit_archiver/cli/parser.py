# SPDX-License-Identifier: Apache-2.0
"""The parser of the command line: says in one line what is wrong, as ``servekit`` does."""

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import NoReturn

from servekit_archiver.cli import exits

__all__ = ["Parser"]

UNKNOWN = "unrecognized arguments: "
#: how argparse begins what it says of a command that is none
WRONG_COMMAND = re.compile("argument COMMAND: invalid choice: '(.*?)' ")


class Parser(argparse.ArgumentParser):
    """Names what may have been meant; the command says what is wrong with its own arguments."""

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Return *arguments* parsed; what no parser knows is an error of the command."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            self._command(parsed.command).error(UNKNOWN + " ".join(unknown))
        return parsed

    def _command(self, name: str) -> argparse.ArgumentParser:
        (commands,) = (each.choices for each in self._actions if each.dest == "command")
        parser: argparse.ArgumentParser = commands[name]  # type: ignore[index] # a mapping
        return parser

    def error(self, message: str) -> NoReturn:
        """End with the status of a usage error."""
        self.exit(exits.USAGE, f"{self.prog}: {self._in_words(message)}\n")

    def _in_words(self, message: str) -> str:
        word, known = "", list[str]()
        if wrong := WRONG_COMMAND.match(message):
            (commands,) = (each.choices for each in self._actions if each.dest == "command")
            message, word = f"unknown command {wrong[1]!r}", wrong[1]
            known = list(commands or ())
        elif message.startswith(UNKNOWN):
            word = message.removeprefix(UNKNOWN).split()[0].split("=")[0]
            flags = (flag for action in self._actions for flag in action.option_strings)
            known = [flag for flag in flags if flag not in ("-h", "--help")]
        if close := difflib.get_close_matches(word, known, n=1):
            return f"{message}, did you mean {close[0]}?"
        return f"{message} (see {self.prog} --help)"

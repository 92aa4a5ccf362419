# SPDX-License-Identifier: Apache-2.0
"""Completion of commands and flags in bash, zsh and fish, by argcomplete.

The shell runs the command itself with ``_ARGCOMPLETE`` set; the parser then tells what can follow,
so commands of plugins are completed like any other.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from servekit_archiver.commands import Run

__all__ = ["complete", "completion", "is_completing"]

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("servekit", "servekit-archive")
EPILOG = """examples:
  %(prog)s bash      # source <(%(prog)s bash) in ~/.bashrc
  %(prog)s zsh       # source <(%(prog)s zsh) in ~/.zshrc, after compinit
  %(prog)s fish > ~/.config/fish/completions/servekit.fish
"""


def completion(parser: ArgumentParser) -> Run:
    """``completion``: print the code that a shell reads to complete commands, flags and models."""
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=SHELLS)
    return _print


def _print(args: Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(PROGRAMS, True, args.shell))
    return 0


def is_completing() -> bool:
    """Whether a shell asks what can follow the words on its command line."""
    return "_ARGCOMPLETE" in os.environ


def complete(create_parser: Callable[[str | None], ArgumentParser]) -> None:
    """Answer the shell, and end the process.

    :param create_parser: gets the command, or ``None`` while it is typed.
    """
    from argcomplete import autocomplete
    from argcomplete.lexers import split_line

    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    before = split_line(line, point)[3]  # the whole words before the one that is typed
    command = next((word for word in before[1:] if not word.startswith("-")), None)
    autocomplete(create_parser(command), always_complete_options=False)

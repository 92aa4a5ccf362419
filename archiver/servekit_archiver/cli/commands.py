# SPDX-License-Identifier: Apache-2.0
"""What the commands share: how one is declared, and how sizes are written."""

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["Commands", "add_command", "human_bytes"]

#: what ``ArgumentParser.add_subparsers`` returns
Commands = Any


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,  # noqa: A002 - argparse's word
    examples: str,
) -> argparse.ArgumentParser:
    """Declare the command *name*.

    :param examples: the end of its ``--help``; ``%(prog)s`` is the program and the command.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, program=parser.prog.removesuffix(f" {name}"))
    return parser


def human_bytes(size: int) -> str:
    """Return *size* with a decimal unit: ``5.1 MB``."""
    if size < 1000:
        return f"{size} B"
    number, units = float(size), iter(("kB", "MB", "GB", "TB"))
    while number >= 999.95:
        number /= 1000
        unit = next(units)
    return f"{number:.1f} {unit}"

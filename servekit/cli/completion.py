# SPDX-License-Identifier: Apache-2.0
"""Completion of ``servekit``: commands, those of plugins too, flags, and models of the server."""

import argparse
from typing import Any, Final

from servekit_archiver.cli.completion import complete

from servekit.cli.parsing.command_table import BUILT_IN, installed_commands
from servekit.cli.parsing.parser import create_parser
from servekit.cli.server import finding
from servekit.errors import StartupError

__all__ = ["complete_command"]

OF_A_SERVER: Final = "pid"  #: a flag of every command that asks a running server
MODEL: Final = "model"


def complete_command() -> None:
    """Answer the shell that asks what can follow, and end the process."""
    complete(_parser)


def _parser(command: str | None) -> argparse.ArgumentParser:
    table = BUILT_IN if command in BUILT_IN.commands else installed_commands()
    parser = create_parser(command, table)
    for action in _actions(parser, command):
        if action.dest == MODEL:
            action.completer = _models  # type: ignore[attr-defined]  # argcomplete looks for it
    return parser


def _actions(parser: argparse.ArgumentParser, command: str | None) -> list[argparse.Action]:
    """Return the arguments of *command* if it asks a running server."""
    commands: dict[str, Any] = {}
    for each in parser._actions:  # noqa: SLF001 - argparse has no other way to ask
        if isinstance(each.choices, dict):
            commands = each.choices
    if command not in commands:
        return []
    found: list[argparse.Action] = commands[command]._actions  # noqa: SLF001
    return found if any(each.dest == OF_A_SERVER for each in found) else []


def _models(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the models of the running server; none if there is none."""
    try:
        models = finding.find_server(parsed_args).get("/models")["models"]
    except StartupError:
        return []
    return [model["name"] for model in models]

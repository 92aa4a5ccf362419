# SPDX-License-Identifier: Apache-2.0
"""Offers the commands that come with servekit."""

from collections.abc import Iterable

from servekit.extension.commands import Command
from servekit.hookspecs import hookimpl

__all__ = ["register_commands"]


@hookimpl
def register_commands() -> Iterable[Command]:
    """Offer the commands of the server and of the archiver."""
    from servekit.builtin.command_list import COMMANDS

    return COMMANDS

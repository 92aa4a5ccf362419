# SPDX-License-Identifier: Apache-2.0
"""The table of commands: those that come with servekit, and those of plugins."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from servekit.builtin.command_list import COMMANDS
from servekit.errors import PluginError
from servekit.extension.commands import Command

__all__ = ["BUILT_IN", "CommandTable", "installed_commands"]

NAME: Final = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class CommandTable:
    """The commands that can be used."""

    commands: dict[str, Command]  #: by name
    plugins: dict[str, str] = field(default_factory=dict)  #: command to the plugin that offers it
    #: why a plugin, or the command of one, cannot be used, by its name
    problems: dict[str, str] = field(default_factory=dict)


BUILT_IN: Final = CommandTable({command.name: command for command in COMMANDS})


def installed_commands() -> CommandTable:
    """Return the commands that come with servekit and those of all plugins; imports the plugins."""
    from servekit.plugins import create_plugin_manager

    manager = create_plugin_manager()
    table = CommandTable(dict(BUILT_IN.commands))
    for plugin in manager.installed:
        if plugin.error:
            problem = f"plugin {plugin.name} cannot be imported: {plugin.error}"
            table.problems[f"plugin {plugin.name}"] = problem
    try:
        contributed = manager.contributions("register_commands")
    except PluginError as error:
        table.problems["register_commands"] = str(error)
        return table
    for name, offers in _by_name(contributed, table.problems).items():
        if problem := _problem(name, [plugin for plugin, _ in offers]):
            table.problems[name] = problem
        else:
            ((table.plugins[name], table.commands[name]),) = offers
    return table


def _by_name(
    contributed: Iterable[tuple[str, Any]], problems: dict[str, str]
) -> dict[str, list[tuple[str, Command]]]:
    """Return what plugins offer, by name, with the name of the plugin."""
    found: dict[str, list[tuple[str, Command]]] = {}
    for plugin, result in contributed:
        commands = list(result) if isinstance(result, Iterable) else [result]
        for command in commands:
            if not isinstance(command, Command):
                problems[f"plugin {plugin}"] = f"plugin {plugin} offers {command!r} as a command"
            elif command != BUILT_IN.commands.get(command.name):
                found.setdefault(command.name, []).append((plugin, command))
    return found


def _problem(name: str, plugins: Sequence[str]) -> str:
    named = " and ".join(plugins)
    if not NAME.fullmatch(name):
        return f"plugin {named}: {name!r} is not a name for a command"
    if name in BUILT_IN.commands:
        return f"plugin {named} offers the command {name}, which comes with servekit"
    return f"command {name}: offered by {named}; uninstall one" if len(plugins) > 1 else ""

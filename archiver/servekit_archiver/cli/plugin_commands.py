# SPDX-License-Identifier: Apache-2.0
"""The commands of plugins, and their options of ``verify``."""

from argparse import ArgumentParser
from importlib import import_module

from servekit_archiver.commands import Check, Command, Configure, Run
from servekit_archiver.errors import ArchiveError
from servekit_archiver.plugins import HookFailure, HookManager

__all__ = ["checks", "configured", "installed"]


def installed() -> dict[str, list[tuple[str, Command]]]:
    """Return the commands that plugins offer to ``servekit-archive``, by name, with the plugins.

    A plugin that cannot be imported, or fails, offers none.
    """
    manager = HookManager()
    manager.discover()
    found: dict[str, list[tuple[str, Command]]] = {}
    try:
        offers = manager.contributions("register_commands")
    except HookFailure:
        return found
    for plugin, commands in offers:
        for command in commands:
            if command.is_of_archives:
                found.setdefault(command.name, []).append((plugin, command))
    return found


def configured(offers: list[tuple[str, Command]], parser: ArgumentParser) -> Run:
    """Add the arguments of the only command of *offers*; return what runs it.

    :raises ArchiveError: it cannot be imported, or several plugins offer it.
    """
    (plugin, command), *others = offers
    if others:
        named = " and ".join(name for name, _ in offers)
        raise ArchiveError(f"command {command.name}: offered by {named}; uninstall one")
    module, _, attribute = command.target.partition(":")
    try:
        configure: Configure = getattr(import_module(module), attribute)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ArchiveError(f"command {command.name} of plugin {plugin}: {reason}") from error
    return configure(parser)


def checks(parser: ArgumentParser) -> list[Check]:
    """Add the options that plugins have for ``verify``; return what they check.

    :raises ArchiveError: a plugin fails; without it, less would be checked than was asked.
    """
    manager = HookManager()
    manager.discover()
    try:
        return list(manager.hook.extend_verify(parser=parser))
    except Exception as error:
        raise ArchiveError(f"verify: a plugin failed: {type(error).__name__}: {error}") from error

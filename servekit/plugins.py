# SPDX-License-Identifier: Apache-2.0
"""Finds the plugins, built in and installed, and asks them what they offer.

A plugin that cannot be imported is reported by name, and the others are used without it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy
from servekit_archiver.plugins import HookFailure, HookManager, InstalledPlugin

from servekit import __version__, hookspecs
from servekit.builtin import DEFAULT_PLUGINS
from servekit.errors import PluginError
from servekit.extension.archives import ACCEPT_GROUP

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from msgspec import Struct

    from servekit.settings import Settings

__all__ = [
    "InstalledPlugin",
    "Offer",
    "PluginManager",
    "choose",
    "collect",
    "create_plugin_manager",
    "implemented",
    "import_target",
    "installed_plugins",
    "leave_out",
    "read_plugin_settings",
]


class Offer(NamedTuple):
    """The offer of a plugin under one key, such as a media type: mostly an import string."""

    plugin: str
    target: Any
    is_builtin: bool = False


class PluginManager(HookManager):
    """Holds the default plugins, and knows all hooks."""

    def __init__(self) -> None:
        """Register the default plugins."""
        super().__init__(hookspecs)
        for name in DEFAULT_PLUGINS:
            self.register(import_module(name), name)

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register *plugin*.

        :raises PluginError: it implements a hook that does not exist, or with other arguments.
        """
        try:
            registered = super().register(plugin, name)
            self.check_pending()
        except pluggy.PluginValidationError as error:
            self.unregister(plugin)
            raise PluginError(str(error)) from error
        return registered

    def _load(self, point: "EntryPoint") -> InstalledPlugin:
        found = super()._load(point)
        if "accept_archive" not in found.hooks:
            return found
        if point.name in self.points.select(group=ACCEPT_GROUP).names:
            return found
        self.unregister(name=point.name)
        problem = f"implements accept_archive, but is not named in the group {ACCEPT_GROUP}"
        return replace(found, module=None, hooks=(), error=problem)

    def contributions(self, hook: str, **arguments: object) -> list[tuple[str, Any]]:
        """Call *hook*; return each result with the name of its plugin, in the order of the calls.

        :raises PluginError: an implementation raised.
        """
        try:
            return super().contributions(hook, **arguments)
        except HookFailure as failure:
            error = failure.__cause__
            raise PluginError(f"{failure.plugin}: {hook}: {error}") from error


def installed_plugins() -> list[InstalledPlugin]:
    """Return the default plugins, then every installed one, imported, in the order of names."""
    manager = create_plugin_manager()
    own, found = f"servekit {__version__}", []
    for name in DEFAULT_PLUGINS:
        module = manager.get_plugin(name)
        hooks = manager.hooks_of(module)
        found.append(InstalledPlugin(name, own, module, hooks=hooks, is_builtin=True))
    return found + manager.installed


def create_plugin_manager(
    *extra: object, discover: bool = True, required: Iterable[str] = ()
) -> PluginManager:
    """Return a manager that holds the default plugins, the installed ones and *extra*.

    *extra* is called first, then the installed ones in the order of their names, then the default
    ones.

    :param discover: ``False`` in tests, to keep the machine's plugins out.
    :param required: names of installed plugins that must be usable.
    :raises PluginError: one of *required* is missing or broken, or one of *extra* implements
        an unknown hook.
    """
    manager = PluginManager()
    if discover:
        manager.discover()
    errors = {plugin.name: plugin.error for plugin in manager.installed}
    for name in required:
        if name not in errors:
            raise PluginError(f"plugin {name} is required and not installed")
        if errors[name]:
            raise PluginError(f"plugin {name} is required and broken: {errors[name]}")
    for module in extra:
        manager.register(module)
    return manager


def leave_out(plugins: PluginManager, plugin_settings: "Mapping[str, Struct]") -> None:
    """Unregister each plugin with a setting ``enabled`` that is false."""
    for plugin, settings in plugin_settings.items():
        if getattr(settings, "enabled", True) is False:
            plugins.unregister(name=plugin)


def read_plugin_settings(settings: "Settings", plugins: PluginManager) -> "dict[str, Struct]":
    """Return the settings of each plugin that has registered some.

    :raises PluginError: a plugin registers something else than settings, or a value is refused.
    """
    from servekit.settings.plugin_values import (  # takes long, and few processes need it
        known_settings,
        plugin_settings,
    )

    kinds: dict[str, type[Struct]] = {}
    for plugin, kind in plugins.contributions("register_settings"):
        try:
            known_settings(kind)
        except ValueError as error:
            raise PluginError(f"{plugin}: register_settings: {error}") from error
        kinds[plugin] = kind
    try:
        return plugin_settings(settings.plugins, kinds)
    except ValueError as error:
        raise PluginError(str(error)) from error


def implemented(hooks: Any, names: Iterable[str]) -> list[str]:
    """Return those of *names* that some plugin implements.

    :param hooks: the ``hook`` of a manager.
    """
    return [name for name in names if getattr(hooks, name).get_hookimpls()]


def collect(manager: PluginManager, hook: str) -> dict[str, list[Offer]]:
    """Return what the plugins contribute to *hook*, a mapping each, by key.

    The keys of the default plugins come first. What a default plugin offers is replaced by what
    another plugin offers under the same key.

    :raises PluginError: an implementation raised, or did not return a mapping.
    """
    found: dict[str, list[Offer]] = {}
    contributed = manager.contributions(hook)
    for plugin, result in sorted(contributed, key=lambda each: each[0] not in DEFAULT_PLUGINS):
        try:
            contribution = dict(result)
        except (TypeError, ValueError) as error:
            raise PluginError(f"{plugin}: {hook}: {error}") from error
        for key, target in contribution.items():
            offer = Offer(plugin, target, plugin in DEFAULT_PLUGINS)
            others = [each for each in found.get(key, ()) if not each.is_builtin]
            found[key] = [*others, offer]
    return found


def choose(what: str, offers: list[Offer]) -> Any:
    """Return the target of the only offer.

    :raises PluginError: several plugins offer *what*; the order of plugins never decides.
    """
    if len(offers) > 1:
        plugins = " and ".join(sorted(offer.plugin for offer in offers))
        raise PluginError(f"{what}: offered by {plugins}; uninstall one")
    return offers[0].target


def import_target(target: str) -> Any:
    """Import what the import string ``module:attribute`` names.

    :raises PluginError: it cannot be imported.
    """
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(f"cannot import {target}: {reason}") from error

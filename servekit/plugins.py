# SPDX-License-Identifier: Apache-2.0
"""Finds the installed plugins; one that fails to import is named, and the others go on."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

import pluggy

from servekit import hookspecs
from servekit.errors import PluginError

__all__ = ["GROUP", "InstalledPlugin", "collect", "create_plugin_manager", "installed_plugins"]

GROUP = "servekit"


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """One entry point of the group ``servekit``, imported or not."""

    name: str
    distribution: str  #: ``servekit-onnx 0.1.0``
    module: object | None  #: ``None`` if it failed to import
    error: str = ""
    hooks: tuple[str, ...] = field(default=())


def installed_plugins() -> list[InstalledPlugin]:
    """Import the hook module of every installed plugin, in the order of their names."""
    return [_import_plugin(point) for point in sorted(entry_points(group=GROUP))]


def _import_plugin(point: EntryPoint) -> InstalledPlugin:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
    try:
        module = point.load()
        hooks = _check_hooks(point.name, module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
        reason = f"{type(error).__name__}: {error}"
        return InstalledPlugin(point.name, distribution, None, reason)
    return InstalledPlugin(point.name, distribution, module, hooks=hooks)


def _check_hooks(name: str, module: object) -> tuple[str, ...]:
    """Return the hooks *module* implements; an unknown hook is an error, not a no-op."""
    manager = _empty_manager()
    manager.register(module, name)
    manager.check_pending()
    return tuple(sorted(caller.name for caller in manager.get_hookcallers(module) or ()))


def create_plugin_manager(
    *extra: object, discover: bool = True, required: Iterable[str] = ()
) -> pluggy.PluginManager:
    """Return a manager holding the installed plugins that import, then *extra*.

    :param discover: ``False`` in tests, to keep the machine's plugins out.
    :param required: names of installed plugins that have to be there.
    :raises PluginError: one of *required* is missing or broken, or one of *extra* implements
        an unknown hook.
    """
    manager = _empty_manager()
    installed = {plugin.name: plugin for plugin in installed_plugins()} if discover else {}
    for name in required:
        if name not in installed:
            raise PluginError(f"plugin {name} is required and not installed")
        if error := installed[name].error:
            raise PluginError(f"plugin {name} is required and broken: {error}")
    for plugin in installed.values():
        if plugin.module is not None:
            manager.register(plugin.module, plugin.name)
    try:
        for module in extra:
            manager.register(module)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(str(error)) from error
    return manager


def collect(manager: pluggy.PluginManager, hook: str) -> dict[str, list[tuple[str, str]]]:
    """Return what all plugins contribute to *hook*: key to the (plugin, import string) offers.

    :raises PluginError: an implementation raised, or did not return a mapping.
    """
    offers: dict[str, list[tuple[str, str]]] = {}
    for implementation in getattr(manager.hook, hook).get_hookimpls():
        try:
            contribution = dict(implementation.function() or {})
        except Exception as error:
            raise PluginError(f"{implementation.plugin_name}: {hook}: {error}") from error
        for key, target in contribution.items():
            offers.setdefault(key, []).append((implementation.plugin_name, target))
    return offers


def _empty_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    return manager

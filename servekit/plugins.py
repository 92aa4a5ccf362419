# SPDX-License-Identifier: Apache-2.0
"""Finds the plugins, built in and installed, and asks them what they offer.

A plugin that cannot be imported is reported by name, and the others are used without it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import pluggy

from servekit import __version__, hookspecs
from servekit.builtin import DEFAULT_PLUGINS
from servekit.errors import PluginError

__all__ = [
    "GROUP",
    "InstalledPlugin",
    "Offer",
    "PluginManager",
    "choose",
    "collect",
    "create_plugin_manager",
    "implemented",
    "import_target",
    "installed_plugins",
]

GROUP = "servekit"
CONTRIBUTES = "register_"  #: how the names of hooks begin whose results are merged
WRAPPER = "a hook wrapper"  #: in place of the name of a plugin, where nobody knows better


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin that is built in, or an entry point of the group ``servekit``, imported or not."""

    name: str
    distribution: str  #: ``servekit-onnx 0.1.0``
    module: object | None  #: ``None`` if it failed to import
    error: str = ""
    hooks: tuple[str, ...] = ()
    is_builtin: bool = False


class Offer(NamedTuple):
    """What a plugin offers under one key, such as a media type: mostly an import string."""

    plugin: str
    target: Any
    is_builtin: bool = False


class PluginManager(pluggy.PluginManager):
    """pluggy's manager, which also knows the plugin that each contribution comes from."""

    def __init__(self) -> None:
        """Hold the default plugins."""
        super().__init__(GROUP)
        self.add_hookspecs(hookspecs)
        self._contributed: list[tuple[str, object]] = []
        self.installed: list[InstalledPlugin] = []  #: as far as ``discover`` was called
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
        for caller in self.get_hookcallers(plugin) or ():
            for each in caller.get_hookimpls() if caller.name.startswith(CONTRIBUTES) else ():
                if each.plugin is plugin and not (each.wrapper or each.hookwrapper):
                    # a result of pluggy does not say which plugin it comes from
                    each.function = self._noted(each, caller.name)  # type: ignore[misc]
        return registered

    def discover(self) -> None:
        """Import and register the installed plugins; one that fails is in ``installed`` only."""
        points = sorted(entry_points(group=GROUP), reverse=True)  # the last one is called first
        self.installed = [self._load(point) for point in points][::-1]

    def _load(self, point: EntryPoint) -> InstalledPlugin:
        distribution = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
        try:
            module = point.load()
            self.register(module, point.name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            cause = error.__cause__ if isinstance(error, PluginError) else error
            reason = f"{type(cause).__name__}: {error}"
            return InstalledPlugin(point.name, distribution, None, reason)
        return InstalledPlugin(point.name, distribution, module, hooks=self.hooks_of(module))

    def hooks_of(self, plugin: object) -> tuple[str, ...]:
        """Return the names of the hooks that *plugin* implements."""
        return tuple(sorted(caller.name for caller in self.get_hookcallers(plugin) or ()))

    def _noted(self, implementation: pluggy.HookImpl, hook: str) -> Callable[..., object]:
        function, plugin = implementation.function, implementation.plugin_name

        def contribute(*arguments: object) -> object:
            try:
                result = function(*arguments)
            except Exception as error:
                raise PluginError(f"{plugin}: {hook}: {error}") from error
            self._contributed.append((plugin, result))
            return result

        return contribute

    def contributions(self, hook: str) -> list[tuple[str, Any]]:
        """Call *hook*; return each result with the name of its plugin, in the order of the calls.

        :raises PluginError: an implementation raised.
        """
        self._contributed.clear()
        results = getattr(self.hook, hook)()
        names = {id(result): plugin for plugin, result in self._contributed}
        return [(names.get(id(result), WRAPPER), result) for result in results]


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

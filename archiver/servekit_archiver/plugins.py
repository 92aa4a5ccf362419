# SPDX-License-Identifier: Apache-2.0
"""Finds the installed plugins and calls their hooks; the server extends this for its own hooks.

A plugin that cannot be imported is reported by name, and the others are used without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points
from types import ModuleType
from typing import Any, Final

import pluggy

from servekit_archiver import hookspecs

__all__ = ["HookFailure", "HookManager", "InstalledPlugin"]

GROUP: Final = "servekit"  #: the group of the entry points
#: how the names of hooks begin whose results are collected: they must say who contributed
CONTRIBUTES: Final = ("recognise_", "register_")
WRAPPER: Final = "a hook wrapper"  #: in place of a plugin, where a wrapper made the result


class HookFailure(Exception):
    """A plugin raised in a hook; the cause is what it raised."""

    def __init__(self, plugin: str, hook: str) -> None:
        super().__init__(plugin, hook)
        self.plugin, self.hook = plugin, hook


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin that is built in, or an entry point of the group ``servekit``, imported or not."""

    name: str
    origin: Distribution | str | None  #: a default plugin has none that is installed by itself
    module: object | None  #: ``None`` if it failed to import
    error: str = ""
    hooks: tuple[str, ...] = ()
    is_builtin: bool = False

    @property
    def distribution(self) -> str:
        """``servekit-onnx 0.1.0``, from the package's metadata: read only where it is shown."""
        if self.origin is None or isinstance(self.origin, str):
            return self.origin or "unknown"
        metadata = self.origin.metadata  # or a class of importlib_metadata, once imported
        return f"{metadata['Name']} {metadata['Version']}"


class HookManager(pluggy.PluginManager):
    """pluggy's manager, which also knows the plugin that each contribution comes from."""

    def __init__(self, specifications: ModuleType = hookspecs) -> None:
        """Add the hooks of the module *specifications*, and no plugin yet."""
        super().__init__(GROUP)
        self.add_hookspecs(specifications)
        self._contributed: list[tuple[str, object]] = []
        self.installed: list[InstalledPlugin] = []  #: filled by ``discover``

    def discover(self, group: str = GROUP) -> None:
        """Import and register the plugins of a *group* of entry points.

        One that fails is in ``installed`` only.
        """
        self.points = entry_points()  # all: each call reads what every distribution declares
        points = sorted(self.points.select(group=group), reverse=True)  # the last is called first
        self.installed = [self._load(point) for point in points][::-1]

    def _load(self, point: EntryPoint) -> InstalledPlugin:
        try:
            module = point.load()
            self.register(module, point.name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            cause = error.__cause__
            kind = type(cause if isinstance(cause, pluggy.PluginValidationError) else error)
            reason = f"{kind.__name__}: {error}"
            return InstalledPlugin(point.name, point.dist, None, reason)
        return InstalledPlugin(point.name, point.dist, module, hooks=self.hooks_of(module))

    def hooks_of(self, plugin: object) -> tuple[str, ...]:
        """Return the names of the hooks that *plugin* implements."""
        return tuple(sorted(caller.name for caller in self.get_hookcallers(plugin) or ()))

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register *plugin*; its contributions will be known as its own."""
        registered = super().register(plugin, name)
        for caller in self.get_hookcallers(plugin) or ():
            for each in caller.get_hookimpls() if caller.name.startswith(CONTRIBUTES) else ():
                if each.plugin is plugin and not (each.wrapper or each.hookwrapper):
                    # a result of pluggy does not say which plugin it comes from
                    each.function = self._noted(each, caller.name)  # type: ignore[misc]
        return registered

    def _noted(self, implementation: pluggy.HookImpl, hook: str) -> Callable[..., object]:
        function, plugin = implementation.function, implementation.plugin_name

        def contribute(*arguments: object) -> object:
            try:
                result = function(*arguments)
            except Exception as error:
                raise HookFailure(plugin, hook) from error
            self._contributed.append((plugin, result))
            return result

        return contribute

    def contributions(self, hook: str, **arguments: object) -> list[tuple[str, Any]]:
        """Call *hook*; return each result with the name of its plugin, in the order of the calls.

        :raises HookFailure: an implementation raised.
        """
        self._contributed.clear()
        results = getattr(self.hook, hook)(**arguments)
        names = {id(result): plugin for plugin, result in self._contributed}
        return [(names.get(id(result), WRAPPER), result) for result in results]

# SPDX-License-Identifier: Apache-2.0
"""Asks the plugins for the service class that a manifest names; says why there is none."""

from collections.abc import Iterable
from pathlib import Path

from servekit_archiver.spelling import closest

from servekit.errors import BootError
from servekit.plugins import InstalledPlugin, PluginManager, choose, collect
from servekit.service.base import Service

__all__ = ["find_service"]


def find_service(name: str, directory: Path, manager: PluginManager) -> type[Service]:
    """Return the class behind *name*, ``module:Class`` of *directory* or a plugin's service.

    :raises BootError: no plugin finds it, or it is not a ``Service``.
    :raises PluginError: two plugins offer it.
    """
    offered = collect(manager, "register_services")
    if name in offered:
        choose(f"service {name!r}", offered[name])
    targets = {key: offers[0].target for key, offers in offered.items()}
    found: object = manager.hook.find_service(reference=name, directory=directory, offers=targets)
    if found is None:
        raise BootError(_not_found(name, directory, targets, manager.installed))
    if not (isinstance(found, type) and issubclass(found, Service) and found is not Service):
        raise BootError(f"service: {name}: {found!r} is not a subclass of servekit.Service")
    return found


def _not_found(
    name: str, directory: Path, known: Iterable[str], plugins: Iterable[InstalledPlugin]
) -> str:
    module, _, attribute = name.rpartition(".")
    is_file = (directory / f"{module.replace('.', '/')}.py").is_file()
    likely = [f"{module}:{attribute}"] if is_file else []
    meant = closest(name, [*likely, *known])
    hint = f", did you mean {meant}?" if meant else ""
    broken = "".join(
        f"; plugin {plugin.name!r} cannot be imported ({plugin.error})"
        for plugin in plugins
        if plugin.error
    )
    names = ", ".join(sorted(known)) or "none"
    return f"service: no plugin offers {name!r}; known: {names}{hint}{broken}"

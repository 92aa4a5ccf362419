# SPDX-License-Identifier: Apache-2.0
"""Finds the service class that a manifest names: in the archive, or offered by a plugin."""

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeGuard

import pluggy

from servekit.errors import BootError, PluginError
from servekit.plugins import collect, installed_plugins
from servekit.service.base import Service

__all__ = ["find_service"]


def find_service(name: str, directory: Path, manager: pluggy.PluginManager) -> type[Service]:
    """Return the class behind *name*, ``module:Class`` of *directory* or a plugin's service.

    :raises BootError: nothing offers it, or it is no ``Service``.
    :raises PluginError: two plugins offer it.
    """
    target = name
    if ":" in name:
        _check_inside(name.partition(":")[0], directory)
    else:
        target = _offered(name, directory, manager)
    module, _, attribute = target.partition(":")
    with _no_bytecode() if ":" in name else nullcontext():
        imported = import_module(module)
    found = getattr(imported, attribute, None)
    if found is None:
        known = [key for key, value in vars(imported).items() if _is_service(value)]
        raise BootError(f"service: {target}: {attribute} is not there{_hint(attribute, known)}")
    if not _is_service(found):
        raise BootError(f"service: {target}: {attribute} is no subclass of servekit.Service")
    return found


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Write no ``__pycache__``: a file saved twice in a second would run as it was at first.

    What tells them apart are whole seconds and the size.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _is_service(value: object) -> TypeGuard[type[Service]]:
    return isinstance(value, type) and issubclass(value, Service) and value is not Service


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def _check_inside(module: str, directory: Path) -> None:
    """Refuse a module that is not a file of *directory*, before any of it runs."""
    top = module.partition(".")[0]
    try:
        spec = find_spec(top)
    except ValueError:  # ``__main__``
        spec = None
    if spec is None:
        raise BootError(f"service: no module {top!r} in the model")
    places = list(spec.submodule_search_locations or ())
    if spec.has_location and spec.origin:
        places.append(spec.origin)
    inside = directory.resolve()
    if not any(Path(place).resolve().is_relative_to(inside) for place in places):
        hint = " (already imported by servekit)" if top in sys.modules else ""
        raise BootError(f"service: {top!r} is not a module of the model but another one{hint}")


def _offered(name: str, directory: Path, manager: pluggy.PluginManager) -> str:
    offers = collect(manager, "register_services")
    found = offers.get(name, [])
    if len(found) > 1:
        plugins = " and ".join(plugin for plugin, _ in found)
        raise PluginError(f"service {name!r}: offered by {plugins}; uninstall one")
    if found:
        return found[0][1]
    known = ", ".join(sorted(offers)) or "none"
    module, _, attribute = name.rpartition(".")
    meant = (
        [f"{module}:{attribute}"]
        if (directory / f"{module.replace('.', '/')}.py").is_file()
        else []
    )
    hint = _hint(name, [*meant, *offers])
    broken = "".join(
        f"; plugin {plugin.name!r} does not import ({plugin.error})"
        for plugin in installed_plugins()
        if plugin.error
    )
    raise BootError(f"service: no plugin offers {name!r}; known: {known}{hint}{broken}")

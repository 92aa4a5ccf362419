# SPDX-License-Identifier: Apache-2.0
"""Finds the service class that a manifest names: in the archive, or offered by a plugin."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from servekit.errors import BootError
from servekit.hookspecs import hookimpl
from servekit.service.base import Service

__all__ = ["find_service", "without_bytecode"]


@hookimpl
def find_service(
    reference: str, directory: Path, offers: Mapping[str, str]
) -> type[Service] | None:
    """Import ``module:Class`` of *directory*, or what *offers* has under this name.

    :raises BootError: the module is not one of the model, or has no such class.
    """
    is_own = ":" in reference
    target = reference if is_own else offers.get(reference)
    if target is None:
        return None
    module, _, attribute = target.partition(":")
    if is_own:
        _require_inside(module, directory)
    with without_bytecode() if is_own else nullcontext():
        imported = import_module(module)
    if not hasattr(imported, attribute):
        raise BootError(f"service: {target}: {attribute} is not there{_hint(attribute, imported)}")
    found: type[Service] = getattr(imported, attribute)
    return found


@contextmanager
def without_bytecode() -> Iterator[None]:
    """Write no ``__pycache__``.

    Python compares whole seconds and the size: a file that is saved twice in a second would run
    as it was saved first.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _hint(name: str, module: object) -> str:
    from servekit_archiver.spelling import closest  # it is needed only for mistakes

    classes = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    known = [key for key in classes if issubclass(classes[key], Service)]
    meant = closest(name, {*known} - {"Service"})
    return f", did you mean {meant}?" if meant else ""


def _require_inside(module: str, directory: Path) -> None:
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

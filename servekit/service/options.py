# SPDX-License-Identifier: Apache-2.0
"""Reads the ``[options]`` of a model, and finds its files. Runs in: worker."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from servekit_archiver.names import name_problem
from servekit_archiver.spelling import closest

from servekit.errors import BootError

__all__ = ["find_asset", "find_file", "read_options"]

T = TypeVar("T")


def read_options(options: Mapping[str, Any], kind: type[T]) -> T:
    """Return *options* as *kind*, a msgspec ``Struct`` or a dataclass of every key.

    :raises BootError: a key is not one of *kind*, or is missing, or its value is of another type.
        This also applies to tables in it whose types are such classes.
    """
    import msgspec  # the supervisor imports this module indirectly
    from msgspec.inspect import type_info

    _check_keys("options", options, type_info(kind))
    try:
        return msgspec.convert(dict(options), kind)
    except msgspec.ValidationError as error:
        raise BootError(_at_key(str(error))) from None


def _at_key(message: str) -> str:
    """Put the key of a message of msgspec, ``... - at `$.image.std[0]```, in front of it."""
    reason, _, path = message.partition(" - at `$.")
    table, _, key = f"options.{path.rstrip('`')}".rpartition(".")
    return f"[{table}] {key}: {reason}" if path else f"[options]: {message}"


def _check_keys(place: str, table: Mapping[str, Any], info: Any) -> None:
    """Refuse the first key of *table* that the class described by *info* does not have."""
    types = {field.encode_name: field.type for field in getattr(info, "fields", ())}
    for key, value in table.items():
        if key not in types:
            raise BootError(f"[{place}] {key}: unknown option{_hint(key, list(types))}")
        members = getattr(types[key], "types", (types[key],))
        tables = [member for member in members if hasattr(member, "fields")]
        if len(tables) == 1 and isinstance(value, Mapping):
            _check_keys(f"{place}.{key}", value, tables[0])


def _hint(key: str, known: list[str]) -> str:
    meant = closest(key, known)
    return f", did you mean {meant}?" if meant else f"; known: {', '.join(known) or 'none'}"


def find_file(directory: Path, suffixes: tuple[str, ...], file: str = "") -> Path:
    """Return the path of *file*; if it is empty, of the one file that ends in a suffix.

    :raises BootError: it is not in *directory*, or there is not exactly one.
    """
    if file:
        path = directory / file
        if name_problem(file) or not path.is_file():
            raise BootError(f"[options] file: {file!r} is not in the archive")
        return path
    found = sorted(path for path in directory.iterdir() if path.suffix in suffixes)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "there is none"
        wanted = " or ".join(suffixes)
        raise BootError(f"[options] file: needed unless there is exactly one {wanted}; {names}")
    return found[0]


def find_asset(assets: Mapping[str, Path], name: str) -> Path:
    """Return the path of the asset *name*.

    :raises BootError: there is none.
    """
    if name not in assets:
        raise BootError(f"[assets.{name}]: not in model.toml{_hint(name, list(assets))}")
    return assets[name]

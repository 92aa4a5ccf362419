# SPDX-License-Identifier: Apache-2.0
"""Archives of the model store that are served at the start, and their settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import StartupError
from servekit.extension import MigrationRow
from servekit_torchserve.command.keys import OPTIONS
from servekit_torchserve.management.archives import identity_of, is_torchserve, locate
from servekit_torchserve.management.errors import UnknownModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["models_in", "options_of_models", "served_models", "settings_of_models"]

ALL: Final = "all"
PACKED: Final = (".mar", ".tar.gz", ".tgz")
BATCHING: Final = {
    "batchSize": "batching.max_batch_size",
    "maxBatchDelay": "batching.max_delay_ms",
}
WORKERS: Final = ("minWorkers", "maxWorkers")
READ: Final = (*BATCHING, *WORKERS, "defaultVersion", "marName")


def served_models(asked: Sequence[str], model_store: Path) -> list[str]:
    """Return the arguments of ``servekit start`` for *asked*: archives, ``NAME=ARCHIVE``, ``all``.

    :raises StartupError: there is no such archive.
    """
    if [each.lower() for each in asked] == [ALL]:
        return [str(path) for path in models_in(model_store)]
    return [_located(each, model_store) for each in asked]


def _located(text: str, model_store: Path) -> str:
    name, mark, where = text.partition("=")
    try:
        path = locate(where if mark else name, model_store)
    except UnknownModel as error:
        raise StartupError(f"models: {text}: {error}") from error
    return f"{name}={path}" if mark else path


def models_in(model_store: Path) -> list[Path]:
    """Return the archives and the unpacked archives in *model_store*.

    :raises StartupError: it cannot be read.
    """
    try:
        paths = sorted(path for path in model_store.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise StartupError(f"model_store: {model_store}: {error.strerror}") from error
    return [path for path in paths if path.name.endswith(PACKED) or _is_unpacked(path)]


def _is_unpacked(path: Path) -> bool:
    return (path / "MAR-INF").is_dir() or (path / "model.toml").is_file()


def settings_of_models(text: str, models: Sequence[str]) -> tuple[list[str], list[MigrationRow]]:
    """Return the arguments of ``--set`` for the property ``models``, and what became of it.

    :param text: JSON: model to version to settings.
    :param models: as ``served_models`` returns them; settings of others are for nobody.
    :raises StartupError: *text* is not such JSON.
    """
    kind = dict[str, dict[str, dict[str, Any]]]
    try:
        tables = msgspec.json.decode(text, type=kind) if text else {}
    except msgspec.MsgspecError as error:
        raise StartupError(f"models: {error}") from error
    served, given, rows = {_name_of(each) for each in models}, list[str](), list[MigrationRow]()
    for name, versions in tables.items():
        if name not in served:
            rows.append(MigrationRow(f"models: {name}", note="no such model is served"))
            continue
        table = next((each for each in versions.values() if each.get("defaultVersion")), None)
        table = table or next(iter(versions.values()), {})
        given += _assignments(name, table)
        rows += _rows(name, table)
    return given, rows


def options_of_models(
    properties: Mapping[str, str], models: Sequence[str]
) -> tuple[list[str], list[MigrationRow]]:
    """Return the arguments of ``--set`` for the properties that are options of each model.

    :param models: as ``served_models`` returns them; only archives of TorchServe have options.
    """
    given, rows = list[str](), list[MigrationRow]()
    names = [_name_of(each) for each in models if is_torchserve(each.rpartition("=")[2])]
    for key, option in OPTIONS.items():
        if value := properties.get(key):
            given += [f'"{name}".options.{option}={value.lower()}' for name in names]
            note = "for the models of the start"
            rows.append(MigrationRow(f"{key}={value}", f"options.{option} of each model", note))
    return given, rows


def _name_of(model: str) -> str:
    name, mark, _ = model.partition("=")
    return name if mark else identity_of(model).name or Path(model).name.partition(".")[0]


def _assignments(name: str, table: dict[str, Any]) -> Iterator[str]:
    for key, setting in BATCHING.items():
        if key in table:
            yield f'"{name}".{setting}={table[key]}'
    if replicas := _replicas(table):
        yield f'"{name}".replicas={replicas}'


def _replicas(table: dict[str, Any]) -> str:
    """Return the number of workers, or their range, in TOML."""
    least = table.get("minWorkers", table.get("maxWorkers", 0))
    most = max(least, table.get("maxWorkers", least))
    if not most:
        return ""
    return str(most) if least == most else f"{{ min = {max(1, least)}, max = {most} }}"


def _rows(name: str, table: dict[str, Any]) -> Iterator[MigrationRow]:
    for key, value in table.items():
        before = f"models: {name}: {key}={value}"
        if key in BATCHING:
            yield MigrationRow(before, f"{name}.{BATCHING[key]}")
        elif key in WORKERS:
            yield MigrationRow(before, f"{name}.replicas")
        elif key not in READ:
            yield MigrationRow(before, note="set it in the model-config.yaml of the archive")

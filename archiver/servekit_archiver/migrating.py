# SPDX-License-Identifier: Apache-2.0
"""Turns a model in another format, which a plugin knows, into an archive."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servekit_archiver.archive.builder import Built, build_archive
from servekit_archiver.archive.reader import open_archive
from servekit_archiver.cache.unpack import unpack
from servekit_archiver.directory.model_toml import MODEL_TOML
from servekit_archiver.directory.recognise import recognise
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.migration import MigrationRow
from servekit_archiver.names import FOREIGN_FOLDER, RESERVED
from servekit_archiver.plugins import HookManager
from servekit_archiver.progress import Progress
from servekit_archiver.scratch import scratch_directory

__all__ = ["Migrated", "migrate_archive"]


@dataclass(frozen=True, slots=True)
class Migrated:
    """An archive that was made of a model in another format."""

    built: Built
    rows: tuple[MigrationRow, ...]  #: the report


def migrate_archive(
    source: str | Path,
    output: str | Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Migrated:
    """Pack the model at *source*, in a format that an installed plugin knows, into an archive.

    :param source: a file or a directory; it is not changed.
    :param output: as of ``build_archive``.
    :param overrides: ``model.toml`` keys that go before those that the plugin offers.
    :raises ArchiveError: no plugin knows it, or something is refused; no file is left behind.
    """
    source, output = Path(source), Path(output)
    _require_foreign(source)
    if output.is_file() and source.samefile(output):
        raise ArchiveError(f"{output}: is the model to migrate, and is not replaced")
    parent = output if output.is_dir() else output.parent
    with refuse_os_errors(output, names_file=False), scratch_directory(parent) as scratch:
        directory = source if source.is_dir() else Path(unpack(source, scratch / "cache").directory)
        offer = recognise(directory)
        if offer is None:
            raise ArchiveError(f"{source}: no installed plugin knows this format")
        table = {"name": _name_of(source)} | dict(offer) | dict(overrides or {})
        rows = _explain(directory, offer)
        built = build_archive(
            _with_foreign_folder(directory, scratch),
            output,
            force=force,
            progress=progress,
            recognise=lambda _directory: table,
        )
    return Migrated(built, rows)


def _require_foreign(source: Path) -> None:
    """Refuse what is in our format already.

    :raises ArchiveError: it is.
    """
    if source.is_dir():
        if (source / MODEL_TOML).is_file():
            raise ArchiveError(f"{source}: has a {MODEL_TOML}: pack it with build")
        return
    try:
        with open_archive(source):
            pass
    except ArchiveError:
        return  # a plugin may know it
    raise ArchiveError(f"{source}: is an archive of servekit already")


def _name_of(source: Path) -> str:
    """Return the name of a model that has none: that of its file, without the suffix."""
    name = source.resolve().name
    return name if source.is_dir() else name.partition(".")[0] or name


def _explain(directory: Path, offer: Mapping[str, Any]) -> tuple[MigrationRow, ...]:
    """Return what the plugin says of *directory*; if it says nothing, what it offers.

    :raises ArchiveError: a plugin fails.
    """
    manager = HookManager()
    manager.discover()
    try:
        told = manager.hook.explain_migration(directory=directory)
    except Exception as error:
        raise ArchiveError(f"{directory}: {type(error).__name__}: {error}") from error
    rows = tuple(row for each in told for row in each)
    return rows or tuple(
        MigrationRow("recognised", f"{key} = {json.dumps(value, default=str)}")
        for key, value in offer.items()
    )


def _with_foreign_folder(directory: Path, scratch: Path) -> Path:
    """Return *directory*, or the same files with another name for the folder of our format."""
    if not (directory / RESERVED).exists():
        return directory
    copy = scratch / "model"
    shutil.copytree(directory, copy, copy_function=_link, symlinks=True)
    (copy / RESERVED).rename(copy / FOREIGN_FOLDER)
    return copy


def _link(source: str, target: str) -> None:
    """Give a file one more name, or copy it to another file system."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)

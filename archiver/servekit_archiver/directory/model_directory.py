# SPDX-License-Identifier: Apache-2.0
"""Reads a model directory: its ``model.toml``, or what a plugin knows about it."""

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from servekit_archiver.directory.model_toml import MODEL_TOML, fill, manifest_from_toml, read
from servekit_archiver.errors import (
    ArchiveError,
    ForeignManifest,
    NotRecognised,
    refuse_os_errors,
)
from servekit_archiver.limits import MANIFEST_BYTES
from servekit_archiver.locking.lock_file import find_lock
from servekit_archiver.manifest import Manifest
from servekit_archiver.names import MANIFEST, file_in

__all__ = [
    "EnclosedArchive",
    "Recognise",
    "default_name",
    "describe_directory",
    "load_directory",
    "open_directory",
    "with_lock",
]

#: returns the ``model.toml`` keys of a directory, or ``None`` if it does not know it
Recognise = Callable[[Path], Mapping[str, Any] | None]

ARCHIVES: Final = (".mar", ".mar.enc")  #: ends of the names of archives
ARCHIVE: Final = "archive"  #: what a plugin offers in place of a service

UNKNOWN: Final = """{directory}: has no model.toml and no installed plugin recognises it; \
write {path} with two lines: name = "{name}" and service = "module:Class" (a class in a \
module.py beside it) or service = "PLUGIN" (such as sklearn or onnx)"""


@dataclass(frozen=True, slots=True)
class EnclosedArchive:
    """The archive that a directory holds in place of the files of a model."""

    path: Path
    keys: Mapping[str, Any] = field(default_factory=dict)  #: stronger than those of its manifest

    def amend(self, manifest: Manifest) -> Manifest:
        """Return *manifest*, that of the archive, with the keys that go before its own."""
        if not self.keys:
            return manifest
        table = fill(self.keys, json.loads(manifest.to_json()))
        return Manifest.from_json(json.dumps(table).encode())


def load_directory(
    directory: str | Path, recognise: Recognise | None = None, *, name: str = ""
) -> Manifest:
    """Return the manifest of a model directory, for serving it without building an archive.

    The same rules as for an archive, but ``files`` is empty: nothing is hashed. A directory
    that an archive was extracted into with its manifest is what that says.

    :param recognise: asked instead of the installed plugins.
    :param name: of the model, if nothing else names it; default: that of the directory.
    :raises ArchiveError: *directory* is not one, or nothing knows the model in it.
    :raises ManifestError: with every problem of ``model.toml``.
    """
    found = open_directory(directory, recognise, name=name)
    if isinstance(found, EnclosedArchive):
        raise _holds_archive(Path(directory), found)
    return found


def open_directory(
    directory: str | Path, recognise: Recognise | None = None, *, name: str = ""
) -> Manifest | EnclosedArchive:
    """Return the manifest of a model directory, or the archive that the directory holds instead.

    The parameters and errors are those of ``load_directory``.
    """
    directory = Path(directory)
    foreign: ForeignManifest | None = None
    if (directory / MANIFEST).is_file():
        try:
            return _extracted(directory)
        except ForeignManifest as error:
            foreign = error
    table = _describe(directory, recognise, {}, foreign or _unknown(directory, name))
    if isinstance(table, EnclosedArchive):
        return table
    manifest = manifest_from_toml(
        table,
        name=name or default_name(directory),
        exists=lambda name: (directory / name).is_file(),
    )
    return with_lock(manifest, directory)


def with_lock(manifest: Manifest, directory: Path, names: Container[str] | None = None) -> Manifest:
    """Return *manifest* with the lock of its requirements, if *directory* has one.

    :param names: the files that are packed, if not all are.
    :raises ArchiveError: the requirements have changed since the lock was made.
    """
    if manifest.requirements is None:
        return manifest
    return replace(manifest, lock=find_lock(directory, manifest.requirements, names))


def _extracted(directory: Path) -> Manifest:
    with refuse_os_errors(directory / MANIFEST), (directory / MANIFEST).open("rb") as file:
        content = file.read(MANIFEST_BYTES + 1)
    if len(content) > MANIFEST_BYTES:
        raise ArchiveError(f"{directory / MANIFEST}: is larger than {MANIFEST_BYTES} bytes")
    return Manifest.from_json(content)


def describe_directory(
    directory: Path,
    recognise: Recognise | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the tables of ``model.toml``, filled up by a plugin where it names no service.

    :param overrides: keys that go before those of the file.
    :raises ArchiveError: nothing knows the model, or it is an archive.
    """
    found = _describe(directory, recognise, overrides or {}, _unknown(directory))
    if isinstance(found, EnclosedArchive):
        raise _holds_archive(directory, found)
    return found


def _holds_archive(directory: Path, found: EnclosedArchive) -> ArchiveError:
    name = found.path.relative_to(directory)
    return ArchiveError(f"{directory}: the model is the archive {name} in it; name that")


def _describe(
    directory: Path,
    recognise: Recognise | None,
    overrides: Mapping[str, Any],
    unknown: ArchiveError,
) -> dict[str, Any] | EnclosedArchive:
    """Return the keys of the model in *directory*, or the archive that it is.

    :param unknown: the error if nothing knows the model.
    """
    if not directory.is_dir():
        reason = "is not a directory" if directory.exists() else "no such directory"
        raise ArchiveError(f"{directory}: {reason}")
    written = read(directory)
    table = {**(written or {}), **overrides}
    if "service" in table or "stages" in table:
        return table
    offer, broken = None, None
    try:
        offer = (recognise or _ask_plugins)(directory)
    except NotRecognised as error:
        broken = error
    if offer is not None and ARCHIVE in offer:
        keys = {key: value for key, value in offer.items() if key != ARCHIVE}
        return EnclosedArchive(file_in(directory, offer[ARCHIVE], ARCHIVE), fill(table, keys))
    if offer is not None:
        return fill(table, offer)
    if written is None and (path := _only_archive(directory)):
        return EnclosedArchive(path)
    if broken or written is None:
        raise broken or unknown
    return table


def _unknown(directory: Path, name: str = "") -> ArchiveError:
    """Return the error that says what to write, for a model *name*."""
    path, name = directory / MODEL_TOML, name or default_name(directory)
    return ArchiveError(UNKNOWN.format(directory=directory, path=path, name=name))


def _only_archive(directory: Path) -> Path | None:
    """Return the archive in *directory* itself; ``None`` if it has none.

    :raises ArchiveError: there are several.
    """
    with refuse_os_errors(directory):
        found = sorted(path for path in directory.iterdir() if _is_archive(path))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ArchiveError(f"{directory}: holds {len(found)} archives ({names}); name one of them")
    return found[0] if found else None


def _is_archive(path: Path) -> bool:
    is_named_so = path.name.endswith(ARCHIVES) and not path.name.startswith(".")
    return is_named_so and path.is_file()


def default_name(directory: Path) -> str:
    """Return the name of a model whose ``model.toml`` gives none: the directory's own."""
    return directory.resolve().name


def _ask_plugins(directory: Path) -> Mapping[str, Any] | None:
    from servekit_archiver.directory.recognise import recognise

    return recognise(directory)

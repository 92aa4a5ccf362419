# SPDX-License-Identifier: Apache-2.0
"""Reads a model directory: its ``model.toml``, or what a plugin knows about it."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from servekit_archiver.directory.model_toml import MODEL_TOML, fill, manifest_from_toml, read
from servekit_archiver.errors import ArchiveError, ForeignManifest, refuse_os_errors
from servekit_archiver.limits import MANIFEST_BYTES
from servekit_archiver.locking.lock_file import find_lock
from servekit_archiver.manifest import Manifest
from servekit_archiver.names import MANIFEST

__all__ = ["Recognise", "default_name", "describe_directory", "load_directory", "with_lock"]

#: returns the ``model.toml`` keys of a directory, or ``None`` if it does not know it
Recognise = Callable[[Path], Mapping[str, Any] | None]

UNKNOWN: Final = """{directory}: has no model.toml and no installed plugin recognises it; \
write {path} with two lines: name = "{name}" and service = "module:Class" (a class in a \
module.py beside it) or service = "PLUGIN" (such as sklearn or onnx)"""


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
    directory = Path(directory)
    foreign: ForeignManifest | None = None
    if (directory / MANIFEST).is_file():
        try:
            return _extracted(directory)
        except ForeignManifest as error:
            foreign = error
    table = describe_directory(directory, recognise, unknown=foreign)
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
    *,
    unknown: ArchiveError | None = None,
) -> dict[str, Any]:
    """Return the tables of ``model.toml``, filled up by a plugin where it names no service.

    :param overrides: keys that go before those of the file.
    :param unknown: the error if nothing knows the model; default: one that says what to write.
    """
    if not directory.is_dir():
        reason = "is not a directory" if directory.exists() else "no such directory"
        raise ArchiveError(f"{directory}: {reason}")
    written = read(directory)
    table = {**(written or {}), **(overrides or {})}
    if "service" in table or "stages" in table:
        return table
    offer = (recognise or _ask_plugins)(directory)
    if written is None and offer is None:
        if unknown:
            raise unknown
        path, name = directory / MODEL_TOML, default_name(directory)
        raise ArchiveError(UNKNOWN.format(directory=directory, path=path, name=name))
    return fill(table, offer or {})


def default_name(directory: Path) -> str:
    """Return the name of a model whose ``model.toml`` gives none: the directory's own."""
    return directory.resolve().name


def _ask_plugins(directory: Path) -> Mapping[str, Any] | None:
    from servekit_archiver.directory.recognise import recognise

    return recognise(directory)

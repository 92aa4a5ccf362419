# SPDX-License-Identifier: Apache-2.0
"""The archives of torch-model-archiver: recognised by their manifest, and unpacked."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from servekit_archiver import open_foreign_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servekit_archiver import ForeignArchive

__all__ = [
    "ArchivedModel",
    "TorchManifest",
    "is_archive",
    "manifest_content",
    "parse_manifest",
    "read_manifest",
    "unpack",
]

MANIFEST: Final = "MAR-INF/MANIFEST.json"
#: the manifest in a directory, and in archives that ``servekit migrate`` has made
PLACES: Final = (MANIFEST, "FOREIGN-INF/MANIFEST.json")
FOLDER: Final = f"/{MANIFEST}"
#: keys of manifests that are not TorchServe's: those of servekit and of multi-model-server
OTHERS: Final = frozenset(
    ("format", "engine", "specificationVersion", "implementationVersion", "modelServerVersion")
)
MAX_MANIFEST: Final = 1 << 20  #: bytes


class ArchivedModel(msgspec.Struct, rename="camel"):
    """The member ``model`` of a manifest."""

    model_name: str = ""
    handler: str = ""  #: a file, ``file:function``, or the name of a handler of TorchServe
    serialized_file: str | None = None
    model_file: str | None = None  #: a Python file with the class of the model
    model_version: str = "1.0"
    requirements_file: str | None = None
    config_file: str | None = None


class TorchManifest(msgspec.Struct, rename="camel"):
    """The content of ``MAR-INF/MANIFEST.json``."""

    model: ArchivedModel
    runtime: str = "python"


def parse_manifest(content: bytes) -> TorchManifest | None:
    """Return the manifest in *content*; ``None`` if torch-model-archiver has not written it."""
    try:
        keys = msgspec.json.decode(content, type=dict[str, msgspec.Raw]).keys()
        if "model" not in keys or keys & OTHERS:
            return None
        return msgspec.json.decode(content, type=TorchManifest)
    except msgspec.DecodeError:
        return None


def read_manifest(directory: Path) -> TorchManifest | None:
    """Return the manifest of an unpacked archive; ``None`` if it is not one of TorchServe."""
    content = manifest_content(directory)
    return parse_manifest(content) if content is not None else None


@lru_cache(maxsize=256)  # front-ends ask again at every change of their models
def is_archive(directory: Path) -> bool:
    """Whether *directory* is an unpacked archive of TorchServe that can be read."""
    try:
        return read_manifest(directory) is not None
    except OSError:
        return False


def manifest_content(directory: Path) -> bytes | None:
    """Return the manifest of an unpacked archive as JSON; ``None`` as ``read_manifest``."""
    for path in (directory / place for place in PLACES):
        if path.is_file() and path.stat().st_size <= MAX_MANIFEST:
            content = path.read_bytes()
            if parse_manifest(content) is not None:
                return content
    return None


def unpack(path: Path, directory: Path, progress: Callable[[int, int], None]) -> bool:
    """Unpack the archive at *path* into *directory*; return whether it is one of TorchServe.

    :raises ArchiveError: it is, and an entry is refused.
    """
    with open_foreign_archive(path) as archive:
        folder = _folder(archive) if archive is not None else None
        if archive is None or folder is None:
            return False
        if parse_manifest(archive.read(f"{folder}{FOLDER}" if folder else MANIFEST)) is None:
            return False
        archive.extract(directory, folder, progress)
        return True


def _folder(archive: ForeignArchive) -> str | None:
    """Return the folder that has the manifest: "", or that of a tar file; ``None`` without one."""
    if MANIFEST in archive.names:
        return ""
    found = [name for name in archive.names if name.endswith(FOLDER) and name.count("/") == 2]
    return found[0].removesuffix(FOLDER) if len(found) == 1 else None

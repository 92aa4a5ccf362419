# SPDX-License-Identifier: Apache-2.0
"""Unpacks archives of MMS: ``.model`` of 0.x, ``.mar`` or ``.tar.gz`` of 1.x.

Runs in: prepare child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from servekit_archiver import open_foreign_archive

from servekit_mms.archives import LEGACY, PRESENT, is_handler_manifest, is_legacy_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servekit_archiver import ForeignArchive

__all__ = ["unpack"]


def unpack(
    path: Path, directory: Path, progress: Callable[[int, int], None]
) -> Literal[True] | None:
    """Write the files of the archive at *path* into *directory*, if it is one of MMS.

    :raises ArchiveError: it is, and cannot be unpacked safely.
    """
    with open_foreign_archive(path) as archive:
        if archive is None:
            return None
        folder = _folder(archive)
        if folder is None:
            return None
        archive.extract(directory, folder, progress)
    return True


def _folder(archive: ForeignArchive) -> str | None:
    """Return the folder of the files: "", or the only one of a tar file of 1.x.

    ``None`` if it is not an archive of MMS.
    """
    names = archive.names
    if LEGACY in names and is_legacy_manifest(archive.read(LEGACY)):
        return ""
    tops = {name.partition("/")[0] for name in names}
    folders: list[str] = ["", *(tops if len(tops) == 1 else ())]
    for folder in folders:
        place = f"{folder}/{PRESENT}".lstrip("/")
        if place in names and is_handler_manifest(archive.read(place)):
            return folder
    return None

# SPDX-License-Identifier: Apache-2.0
"""Unpacks archives of MMS: ``.model`` of 0.x, ``.mar`` of 1.x. Runs in: prepare child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from servekit_archiver import open_foreign_archive

from servekit_mms.archives import LEGACY, PRESENT, is_handler_manifest, is_legacy_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
        names = archive.names
        is_ours = (LEGACY in names and is_legacy_manifest(archive.read(LEGACY))) or (
            PRESENT in names and is_handler_manifest(archive.read(PRESENT))
        )
        if not is_ours:
            return None
        archive.extract(directory, progress=progress)
    return True

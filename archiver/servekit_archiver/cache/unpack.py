# SPDX-License-Identifier: Apache-2.0
"""The content-addressed cache: each content is unpacked once, whatever its archive is called.

    CACHE/models/DIGEST/             the files, read-only, and MAR-INF/MANIFEST.json
    CACHE/verified/DEVICE-INODE      which archive file was read whole and found right, as it was
    CACHE/verified/DIGEST            as of when the unpacked files were found right, or used last

DIGEST is the SHA-256 of the manifest, which lists the SHA-256 of every file.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from servekit_archiver.archive.reader import Archive, open_archive
from servekit_archiver.cache.places import UNUSED_S, Unpacked, default_cache_dir, own_folder
from servekit_archiver.cache.stamps import (
    is_intact,
    is_verified,
    remember_intact,
    remember_verified,
    state_of,
)
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.limits import DEFAULT_LIMITS, Limits
from servekit_archiver.names import MANIFEST
from servekit_archiver.progress import Progress

__all__ = ["unpack"]

READ_ONLY: Final = 0o444
ATTEMPTS: Final = 3  #: to replace a broken directory, while others may do the same


def unpack(
    path: str | Path,
    cache_dir: str | Path | None = None,
    progress: Progress | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Unpacked:
    """Verify the archive at *path* and return its content from the cache, unpacked if need be.

    Plugins unpack files that are not archives of ours; see the hook ``unpack_archive``.

    An archive file that was verified before and has not changed since is not read again.
    Safe in several processes at once.

    :param cache_dir: default: see ``default_cache_dir``.
    :raises ArchiveError: the archive is refused, or cannot be unpacked; nothing is left behind.
    """
    cache = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    try:
        archive = open_archive(path, limits=limits)
    except ArchiveError as refusal:
        from servekit_archiver.cache.foreign import unpack_foreign  # few are of other formats

        return unpack_foreign(Path(path), cache, refusal, progress)
    models, verified = own_folder(cache / "models"), own_folder(cache / "verified")
    with archive:
        directory = models / archive.digest
        unpacked = Unpacked(directory, archive.manifest, archive.digest)
        before = archive.identity()
        if _is_whole(directory, archive, verified):
            if is_verified(verified, before, archive.digest):
                return unpacked
            archive.verify(progress)
        else:
            _install(archive, directory, verified, progress)
        if archive.identity() == before:
            remember_verified(verified, before, archive.digest)
        return unpacked


def _is_whole(directory: Path, archive: Archive, verified: Path) -> bool:
    """Say whether *directory* has every file as it was unpacked: one may have been changed.

    Files that have not changed since they were verified are not read again.
    """
    names = [*archive.manifest.files, MANIFEST]
    try:
        state = state_of(directory, names)
        if not is_intact(verified, archive.digest, state):
            if not all(_is_right(directory, name, archive) for name in names):
                return False
            remember_intact(verified, archive.digest, state)
    except OSError:
        return False
    with suppress(OSError):
        os.utime(verified / archive.digest)  # for remove_unused
    return True


def _is_right(directory: Path, name: str, archive: Archive) -> bool:
    path = directory / name
    expected = archive.digest if name == MANIFEST else archive.manifest.files[name].sha256
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == expected


def _install(archive: Archive, directory: Path, verified: Path, progress: Progress | None) -> None:
    from servekit_archiver.cache.holding import remove_unused
    from servekit_archiver.scratch import remove_abandoned, scratch_directory

    models = directory.parent
    with refuse_os_errors(models, names_file=False):
        remove_abandoned(models)
        remove_unused(models.parent, UNUSED_S)
        with scratch_directory(models) as scratch:
            content = scratch / archive.digest
            content.mkdir(mode=0o700)
            archive.write_files(content, READ_ONLY, progress)
            _write_manifest(content, archive)
            _put_in_place(content, directory, archive, verified, scratch)


def _write_manifest(content: Path, archive: Archive) -> None:
    path = content / MANIFEST
    path.parent.mkdir(mode=0o700)
    path.write_bytes(archive.manifest_bytes)
    path.chmod(READ_ONLY)


def _put_in_place(
    content: Path, directory: Path, archive: Archive, verified: Path, scratch: Path
) -> None:
    """Rename *content* to *directory*; the first process wins, and a broken one is replaced."""
    for attempt in range(ATTEMPTS):
        with suppress(OSError):
            content.rename(directory)
            remember_intact(
                verified, archive.digest, state_of(directory, [*archive.manifest.files, MANIFEST])
            )
            return
        if _is_whole(directory, archive, verified):
            return  # another process was faster: its content is ours
        with suppress(OSError):
            directory.rename(scratch / f"broken-{attempt}")
    raise ArchiveError(f"{directory}: cannot be replaced")

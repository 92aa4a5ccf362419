# SPDX-License-Identifier: Apache-2.0
"""Puts files where they belong: into a new directory, and from there over another one."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from servekit_archiver.counting import counted
from servekit_archiver.errors import ArchiveError, refuse_os_errors

__all__ = ["merge", "require_space", "write_new_file"]

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def require_space(directory: Path, needed: int) -> None:
    """Refuse to begin what cannot be finished.

    :raises ArchiveError: the file system of *directory* has less than *needed* bytes free.
    """
    with refuse_os_errors(directory):
        stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    if needed > free:
        reason = os.strerror(errno.ENOSPC)
        raise ArchiveError(f"{directory}: {reason}: {counted(needed, 'byte')} needed, {free} free")


def write_new_file(
    path: Path, mode: int | None, fill: Callable[[Callable[[bytes], object]], str]
) -> str:
    """Make the file *path* and its folders, let *fill* write it, and see it safely on disk.

    :param mode: permissions when done; ``None``: what the umask leaves.
    :return: what *fill* returns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, NEW_FILE, 0o666 if mode is None else 0o600)
    with os.fdopen(fd, "wb") as file:
        result = fill(file.write)
        file.flush()
        if mode is not None:
            os.fchmod(fd, mode)
        os.fsync(fd)
    return result


def merge(source: Path, names: list[str], destination: Path) -> None:
    """Move the files *names* from *source* into *destination*, over what is there.

    :raises ArchiveError: a folder on the way is a link or a file; nothing is moved then.
    """
    for name in names:
        _refuse_detour(destination, name)
    for name in names:
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (source / name).replace(target)


def _refuse_detour(destination: Path, name: str) -> None:
    *folders, _ = name.split("/")
    path = destination
    for folder in folders:
        path /= folder
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise ArchiveError(f"{path}: is not a directory, as entry {name!r} needs it")
    if (destination / name).is_dir() and not (destination / name).is_symlink():
        raise ArchiveError(f"{destination / name}: is a directory; entry {name!r} is a file")

# SPDX-License-Identifier: Apache-2.0
"""Lists the files of a model directory that go into its archive."""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from servekit_archiver.counting import counted
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.ignore import is_ignored, read_patterns
from servekit_archiver.limits import DEFAULT_LIMITS
from servekit_archiver.names import RESERVED, find_clashes, is_reserved, name_problem
from servekit_archiver.strictjson import show

__all__ = ["list_files", "open_file"]


def list_files(directory: Path) -> list[str]:
    """Return the names of the files to pack, sorted, with ``/`` between folders.

    :raises ArchiveError: a link, a special file, or a name that no archive may hold.
    """
    patterns = read_patterns(directory)
    with refuse_os_errors(directory):
        names = sorted(_walk(directory, "", patterns))
    for name in names:
        if problem := name_problem(name):
            raise ArchiveError(f"{directory}: the name {show(name)} {problem}")
        if is_reserved(name):
            reason = f"{RESERVED} belongs to the archive format; rename it or leave it out"
            raise ArchiveError(f"{directory / name}: {reason}")
    for one, other in find_clashes(names):
        raise ArchiveError(f"{directory}: some systems take {show(one)} and {show(other)} for one")
    if len(names) >= DEFAULT_LIMITS.entries:  # the manifest is an entry, too
        limit = DEFAULT_LIMITS.entries - 1
        raise ArchiveError(f"{directory}: has {counted(len(names), 'file')}, limit {limit}")
    return names


def _walk(directory: Path, above: str, patterns: tuple[str, ...]) -> Iterator[str]:
    with os.scandir(directory / above) as entries:
        for entry in entries:
            name = f"{above}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_ignored(name, is_folder, patterns):
                continue
            if is_folder:
                yield from _walk(directory, f"{name}/", patterns)
            elif entry.is_file(follow_symlinks=False):
                yield name
            else:
                kind = "a symbolic link" if entry.is_symlink() else "not a regular file"
                raise ArchiveError(f"{directory / name}: is {kind}; an archive holds files only")


def open_file(path: Path) -> tuple[BinaryIO, int]:
    """Open a regular file for reading and return it with its size; links are not followed."""
    with refuse_os_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        file = os.fdopen(fd, "rb", buffering=0)
        stat = os.fstat(fd)
    if not S_ISREG(stat.st_mode):
        file.close()
        raise ArchiveError(f"{path}: is not a regular file")
    return file, stat.st_size

# SPDX-License-Identifier: Apache-2.0
"""Lists the files of a model directory that go into its archive."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from servekit_archiver.counting import counted
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.limits import DEFAULT_LIMITS
from servekit_archiver.names import RESERVED, find_clashes, is_reserved, name_problem
from servekit_archiver.strictjson import show

__all__ = ["ALWAYS", "IGNORE_FILE", "is_ignored", "list_files", "open_file", "read_patterns"]

IGNORE_FILE: Final = ".servekitignore"

#: version control, caches, other archives, and where people keep secrets
ALWAYS: Final = (
    *(".git", ".hg", ".svn", ".venv", ".env", ".DS_Store", ".ipynb_checkpoints"),
    *("__pycache__", "*.pyc", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    *("*.mar", IGNORE_FILE),
)


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
        raise ArchiveError(
            f"{directory}: {show(one)} and {show(other)} are one file on some systems"
        )
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


def read_patterns(directory: Path) -> tuple[str, ...]:
    """Return the patterns that hold in *directory*: ours, then those of ``.servekitignore``.

    One pattern a line; ``#`` begins a comment. A pattern without ``/`` matches a file or
    folder of that name anywhere, one with ``/`` a path from the top; ``**`` is any folders.
    """
    path = directory / IGNORE_FILE
    if not path.is_file():
        return ALWAYS
    try:
        with refuse_os_errors(path):
            lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{path}: is not UTF-8 (byte {error.start})") from None
    patterns = [line for line in lines if line and not line.startswith("#")]
    for pattern in patterns:
        if pattern.startswith("!"):
            raise ArchiveError(f"{path}: {pattern!r}: patterns that begin with ! are not known")
    return (*ALWAYS, *patterns)


def is_ignored(name: str, is_folder: bool, patterns: Sequence[str]) -> bool:
    """Say whether *name*, a path from the top of the directory, matches a pattern."""
    return any(_matches(name, is_folder, pattern) for pattern in patterns)


def _matches(name: str, is_folder: bool, pattern: str) -> bool:
    if pattern.endswith("/") and not is_folder:
        return False
    pattern = pattern.removesuffix("/")
    if "/" not in pattern:
        return fnmatchcase(name.rpartition("/")[2], pattern)
    return _match_parts(name.split("/"), pattern.removeprefix("/").split("/"))


def _match_parts(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_match_parts(parts[i:], patterns[1:]) for i in range(len(parts) + 1))
    return (
        bool(parts) and fnmatchcase(parts[0], patterns[0]) and _match_parts(parts[1:], patterns[1:])
    )

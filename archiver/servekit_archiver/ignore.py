# SPDX-License-Identifier: Apache-2.0
"""Which files of a model directory stay out of its archive."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from servekit_archiver.errors import ArchiveError, refuse_os_errors

__all__ = ["ALWAYS", "IGNORE_FILE", "is_ignored", "read_patterns"]

IGNORE_FILE: Final = ".servekitignore"

#: version control, caches, other archives, and where people keep secrets
ALWAYS: Final = (
    *(".git", ".hg", ".svn", ".venv", ".env", ".DS_Store", ".ipynb_checkpoints"),
    *("__pycache__", "*.pyc", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    *("*.mar", IGNORE_FILE),
)


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

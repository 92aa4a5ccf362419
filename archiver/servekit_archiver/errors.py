# SPDX-License-Identifier: Apache-2.0
"""The errors of the archive format.

ArchiveError          an archive or a model directory is refused; says which entry and why
└── ManifestError     the manifest or ``model.toml`` is refused; lists every problem
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["ArchiveError", "ManifestError", "refuse_os_errors"]


class ArchiveError(Exception):
    """An archive, or a directory to make one of, is refused. The text is one line."""


class ManifestError(ArchiveError):
    """A manifest breaks its rules. Every problem is listed, not just the first."""

    def __init__(self, problems: Iterable[str], source: str = "manifest") -> None:
        self.problems: list[str] = list(problems)  #: each names the key, the value and the limit
        self.source = source  #: the file the problems are in
        super().__init__(self.problems, source)

    def __str__(self) -> str:
        return f"{self.source}: {'; '.join(self.problems)}"


@contextmanager
def refuse_os_errors(subject: object) -> Iterator[None]:
    """Turn an ``OSError`` into an ``ArchiveError`` that says what it happened to."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        where = f" ({os.fspath(error.filename)!s})" if error.filename not in (None, subject) else ""
        raise ArchiveError(f"{subject}: {reason}{where}") from error

# SPDX-License-Identifier: Apache-2.0
"""The errors of the archive format.

ArchiveError          an archive or a model directory is refused; says which entry and why
└── ManifestError     the manifest or ``model.toml`` is refused; lists every problem
    └── ForeignManifest   the manifest is one of another format
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = [
    "ArchiveError",
    "ForeignManifest",
    "ManifestError",
    "NotRecognised",
    "refuse_os_errors",
]


class ArchiveError(Exception):
    """An archive, or a directory to make one of, is refused. The text is one line."""


class ManifestError(ArchiveError):
    """A manifest breaks its rules. Every problem is listed, not just the first."""

    def __init__(self, problems: Iterable[str], source: str = "manifest") -> None:
        #: each names the key, the value and the limit
        self.problems: list[str] = [*map(_one_line, problems)]
        self.source = source  #: the file the problems are in
        super().__init__(self.problems, source)

    def __str__(self) -> str:
        return f"{self.source}: {'; '.join(self.problems)}"


def _one_line(problem: str) -> str:
    """Return *problem* with escapes for what is not drawn: it may quote a stranger's manifest."""
    if problem.isprintable():
        return problem
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in problem
    )


class NotRecognised(ArchiveError):
    """No plugin recognises a directory, but some could not be asked, as they are broken."""


class ForeignManifest(ManifestError):
    """The manifest is not one of ours: a plugin may know its format."""


@contextmanager
def refuse_os_errors(subject: object, *, names_file: bool = True) -> Iterator[None]:
    """Turn an ``OSError`` into an ``ArchiveError`` that says what it happened to.

    :param names_file: say which file it was, too, if that is another one than *subject*;
        false where it can only be a scratch file, of which the user never heard.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        file = "" if error.filename is None else str(error.filename)
        where = f" ({file})" if names_file and file not in ("", str(subject)) else ""
        raise ArchiveError(f"{subject}: {reason}{where}") from error

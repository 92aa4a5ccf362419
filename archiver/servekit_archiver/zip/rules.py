# SPDX-License-Identifier: Apache-2.0
"""The rules for an entry of a model archive, and for all entries together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from stat import S_IFDIR, S_IFMT, S_IFREG
from typing import TYPE_CHECKING, Final

from servekit_archiver.counting import counted
from servekit_archiver.limits import Limits
from servekit_archiver.names import (
    MANIFEST,
    SIGNATURE,
    find_clashes,
    is_reserved,
    name_problem,
    parents,
)
from servekit_archiver.zip.format import (
    DEFLATED,
    EXTRA_ALIGNMENT,
    EXTRA_ZIP64,
    NEWEST_VERSION,
    STORED,
    UTF8,
    ZipEntry,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servekit_archiver.limits import Limits

__all__ = ["entry_problem", "extras_problem", "set_problems"]

ENCRYPTED: Final = 1 << 0
DESCRIPTOR: Final = 1 << 3
DEFLATE_LEVEL: Final = 0b110  #: how hard the writer tried; means nothing to a reader
DOS_LABEL: Final = 0x08
DOS_FOLDER: Final = 0x10
#: extra fields that say nothing of name, kind or content: sizes, our own, times and owners
HARMLESS_EXTRAS: Final = frozenset(
    (EXTRA_ZIP64, EXTRA_ALIGNMENT, 0x000A, 0x5455, 0x5855, 0x7855, 0x7875)
)
SECOND_NAMES: Final = {0x7075: "Info-ZIP Unicode path", 0x554E: "Xceed Unicode name"}
ENCRYPTIONS: Final = (0x0017, 0x9901)


def entry_problem(entry: ZipEntry, limits: Limits) -> str | None:
    """Return why *entry* alone is refused, or ``None``."""
    if problem := name_problem(entry.name):
        return f"its name {problem}"
    checks = _flags_problem, _mode_problem, _header_problem
    found = (check(entry) for check in checks)
    return next(filter(None, found), None) or _size_problem(entry, limits)


def _flags_problem(entry: ZipEntry) -> str | None:
    if entry.flags & ENCRYPTED:
        return "is encrypted"
    if entry.flags & DESCRIPTOR:
        return "has its size after its content (data descriptor)"
    unknown = entry.flags & ~(UTF8 | DEFLATE_LEVEL)
    return f"uses the flags {unknown:#06x}" if unknown else None


def _mode_problem(entry: ZipEntry) -> str | None:
    """Look at the Unix mode whatever system the entry says it was made on: some readers do."""
    mode = entry.attributes >> 16
    expected = S_IFDIR if entry.is_folder else S_IFREG
    if S_IFMT(mode) not in (0, expected):
        return f"is not a regular file (mode {mode:#o})"
    if mode & 0o7000:
        return f"has a special permission (mode {mode:#o})"
    if entry.attributes & DOS_LABEL or (entry.attributes & DOS_FOLDER and not entry.is_folder):
        return f"is not a regular file (MS-DOS attributes {entry.attributes & 0xFF:#x})"
    return None


def _header_problem(entry: ZipEntry) -> str | None:
    if entry.version > NEWEST_VERSION:
        return f"needs version {entry.version / 10} of the zip format, limit {NEWEST_VERSION / 10}"
    if entry.method not in (STORED, DEFLATED):
        return f"uses compression method {entry.method}, not stored (0) or deflated (8)"
    if entry.disk:
        return f"is on disk {entry.disk} of a split archive"
    return "has a comment" if entry.comment_size else None


def _size_problem(entry: ZipEntry, limits: Limits) -> str | None:
    if entry.is_folder and any((entry.size, entry.packed_size, entry.crc, entry.method)):
        return "is a folder with content"
    if entry.method == STORED and entry.size != entry.packed_size:
        return f"is stored, but its {counted(entry.packed_size, 'byte')} should become {entry.size}"
    if entry.size > limits.file_bytes:
        return f"is {counted(entry.size, 'byte')}, limit {limits.file_bytes}"
    if limits.exceeds_ratio(entry.size, entry.packed_size):
        return (
            f"unpacks {counted(entry.packed_size, 'byte')} to {entry.size}, limit {limits.ratio}:1"
        )
    return None


def extras_problem(identifiers: Sequence[int]) -> str | None:
    """Return why an entry with these extra fields is refused, or ``None``."""
    for identifier in identifiers:
        if identifier in SECOND_NAMES:
            return f"has a second name ({SECOND_NAMES[identifier]})"
        if identifier in ENCRYPTIONS:
            return "is encrypted"
        if identifier not in HARMLESS_EXTRAS:
            return f"has the extra field {identifier:#06x}, which readers interpret differently"
    return "has an extra field twice" if len(set(identifiers)) < len(identifiers) else None


def set_problems(entries: Sequence[ZipEntry], limits: Limits) -> Iterator[tuple[str | None, str]]:
    """Yield what is wrong with *entries* together: an entry's name, or ``None``, and why."""
    files = [entry.name for entry in entries if not entry.is_folder]
    for one, other in find_clashes(files):
        yield other, f"clashes with {one!r}: some systems treat both names as one file"
    folders = {folder for name in files for folder in parents(name)}
    for entry in entries:
        if entry.is_folder:
            if entry.name not in folders:
                yield entry.name, "is an empty folder, or is listed twice"
            folders.discard(entry.name)
        elif is_reserved(entry.name) and entry.name not in (MANIFEST, SIGNATURE):
            yield entry.name, f"is in the folder of {MANIFEST}, where no other file may be"
    total = sum(entry.size for entry in entries)
    if total > limits.total_bytes:
        yield None, f"unpacks to {counted(total, 'byte')}, limit {limits.total_bytes}"

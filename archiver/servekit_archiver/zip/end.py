# SPDX-License-Identifier: Apache-2.0
"""Finds the central directory of a zip file by the end record, which must be the last thing.

Nothing is searched for: a file whose last 22 bytes are not an end record without a comment is
refused, so there is one way to read it. The search below only words the refusal.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servekit_archiver.counting import counted
from servekit_archiver.limits import Limits
from servekit_archiver.zip.format import (
    END,
    END64,
    LOCAL,
    LOCATOR64,
    MAX16,
    MAX32,
    NEWEST_VERSION,
)
from servekit_archiver.zip.source import Source

__all__ = ["CentralDirectory", "find_directory"]

#: suffixes of files that lie in a model directory
OF_MODELS: Final = frozenset(
    (
        ".py",
        ".toml",
        ".onnx",
        ".joblib",
        ".skops",
        ".pt",
        ".pt2",
        ".pth",
        ".safetensors",
        ".npy",
        ".bin",
    )
)

#: most bytes of an entry in the central directory: a header, a name, some extras
BYTES_PER_ENTRY: Final = 2048


@dataclass(frozen=True, slots=True)
class CentralDirectory:
    """Where the central directory is."""

    count: int
    size: int
    offset: int


def find_directory(source: Source, limits: Limits) -> CentralDirectory:
    """Return where *source*'s central directory is; it ends where the end record begins.

    :raises ArchiveError: there is no end record, or it contradicts itself or the file.
    """
    at = source.size - END.size
    end = END.unpack(source.read(at, END.size)) if at >= 0 else None
    if end is None or end[-1] != 0:
        raise source.refuse(_why_no_end(source))
    *disks, here, count, size, offset, _ = end
    wide = _find_wide(source, at)
    if wide is not None:
        at, (here64, count64, size64, offset64) = wide
        _require_same(source, (here, count, size, offset), (here64, count64, size64, offset64))
        here, count, size, offset = here64, count64, size64, offset64
    elif MAX32 in (size, offset):
        raise source.refuse("its end record refers to a ZIP64 end record, which is not there")
    if any(disks) or here != count:
        raise source.refuse("is part of a split archive")
    if count > limits.entries:
        raise source.refuse(f"has {count} entries, limit {limits.entries}")
    if offset + size != at or size > count * BYTES_PER_ENTRY:
        raise source.refuse("its end record does not say where its central directory is")
    return CentralDirectory(count, size, offset)


def _find_wide(source: Source, end_at: int) -> tuple[int, tuple[int, ...]] | None:
    """Return where the ZIP64 end record is and its last four values, if there is one."""
    locator_at = end_at - LOCATOR64.size
    locator = LOCATOR64.unpack(source.read(locator_at, LOCATOR64.size)) if locator_at >= 0 else None
    if locator is None:
        return None
    disk, at, disks = locator
    if disk or disks != 1:
        raise source.refuse("is part of a split archive")
    if at != locator_at - END64.size or at < 0:
        raise source.refuse("its ZIP64 end record is not where it says")
    values = END64.unpack(source.read(at, END64.size))
    if values is None or values[0] != END64.size - 12:
        raise source.refuse("its ZIP64 end record is malformed")
    if (version := values[2]) > NEWEST_VERSION:
        raise source.refuse(
            f"needs version {version / 10} of the zip format, limit {NEWEST_VERSION / 10}"
        )
    if values[3] or values[4]:
        raise source.refuse("is part of a split archive")
    return at, values[5:]


def _require_same(source: Source, narrow: tuple[int, ...], wide: tuple[int, ...]) -> None:
    """Refuse a ZIP64 end record that contradicts the other one, or that nothing needs."""
    numbers = tuple(zip(narrow, (MAX16, MAX16, MAX32, MAX32), wide, strict=True))
    if any(value not in (limit, real) for value, limit, real in numbers):
        raise source.refuse("its two end records contradict each other")
    if all(real < limit for _, limit, real in numbers):
        raise source.refuse("has a ZIP64 end record that it does not need")


def _why_no_end(source: Source) -> str:
    tail_size = min(source.size, END.size + MAX16)
    tail = source.read(source.size - tail_size, tail_size)
    found = tail.rfind(END.signature)
    if found >= 0 and len(tail) - found >= END.size:
        return f"has {counted(len(tail) - found - END.size, 'byte')} after its end record, limit 0"
    if source.read(0, min(4, source.size)) == LOCAL.signature:
        return "is cut short: it has no end record"
    what = "is not an archive" if source.size else "is empty, and not an archive"
    return f"{what}; {_advice(source.path)}"


def _advice(path: Path) -> str:
    """Say what somebody who names a file of a model wants to name."""
    directory = path.absolute().parent
    if path.suffix in OF_MODELS:
        return f"a model is an archive or a directory: did you mean {directory}?"
    return "a model is an archive, which servekit build makes, or a directory"

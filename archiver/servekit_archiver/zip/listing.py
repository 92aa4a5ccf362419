# SPDX-License-Identifier: Apache-2.0
"""Reads the list of entries of a zip file, and refuses every file that two readers could
take for two different archives.

Each byte must belong to exactly one thing: the entries follow one another from byte 0,
then come the central directory and the end record. The standard library's ``zipfile``
accepts much more, and some of its releases have open holes here (CVE-2024-0450,
CVE-2025-8291); it is not used.
"""

from collections.abc import Iterator
from dataclasses import replace

from servekit_archiver.counting import counted
from servekit_archiver.limits import Limits
from servekit_archiver.zip.end import CentralDirectory, find_directory
from servekit_archiver.zip.format import (
    CENTRAL,
    EXTRA_ZIP64,
    LOCAL,
    MAX32,
    UTF8,
    ZipEntry,
    extra_fields,
)
from servekit_archiver.zip.rules import entry_problem, extras_problem, set_problems
from servekit_archiver.zip.source import Source

__all__ = ["read_entries"]


def read_entries(source: Source, limits: Limits) -> dict[str, ZipEntry]:
    """Return the files of *source* by name, in the order of the central directory.

    :raises ArchiveError: any rule of the format is broken; the entry is named.
    """
    directory = find_directory(source, limits)
    listed = list(_read_directory(source, directory))
    for entry in listed:
        if problem := entry_problem(entry, limits):
            raise source.refuse(problem, entry.name)
    for name, problem in set_problems(listed, limits):
        raise source.refuse(problem, name)
    placed = _follow(source, listed, directory)
    return {entry.name: placed[entry.offset] for entry in listed if not entry.is_folder}


def _read_directory(source: Source, directory: CentralDirectory) -> Iterator[ZipEntry]:
    raw = source.read(directory.offset, directory.size)
    at = 0
    for index in range(directory.count):
        fixed = CENTRAL.unpack(raw[at : at + CENTRAL.size])
        if fixed is None:
            raise source.refuse(f"record {index} of its central directory is malformed")
        name_size, extra_size, comment_size = fixed[9:12]
        name_at = at + CENTRAL.size
        extra_at = name_at + name_size
        at = extra_at + extra_size + comment_size
        if at > len(raw):
            raise source.refuse(f"record {index} of its central directory is cut short")
        raw_name, extra = raw[name_at:extra_at], raw[extra_at : extra_at + extra_size]
        yield _make_entry(source, fixed, raw_name, extra)
    if at != len(raw):
        raise source.refuse("its central directory holds more than its entries")


def _make_entry(source: Source, fixed: tuple[int, ...], raw_name: bytes, extra: bytes) -> ZipEntry:
    _, version, flags, method, time, date, crc, packed, size = fixed[:9]
    comment_size, disk, _, attributes, offset = fixed[11:]
    name = _decode_name(source, raw_name, flags)
    size, packed, offset = _widen(source, name, extra, (size, packed, offset))
    return ZipEntry(
        name=name.removesuffix("/") if len(name) > 1 else name,
        raw_name=raw_name,
        is_folder=name.endswith("/") and len(name) > 1,
        version=version,
        flags=flags,
        method=method,
        stamp=(time, date),
        crc=crc,
        packed_size=packed,
        size=size,
        offset=offset,
        attributes=attributes,
        disk=disk,
        comment_size=comment_size,
    )


def _decode_name(source: Source, raw: bytes, flags: int) -> str:
    try:
        return raw.decode("utf-8" if flags & UTF8 else "ascii")
    except UnicodeDecodeError:
        reason = "is not UTF-8" if flags & UTF8 else "is neither ASCII nor marked as UTF-8"
        raise source.refuse(f"its name {reason}", raw.decode("latin-1")) from None


def _widen(source: Source, name: str, extra: bytes, values: tuple[int, ...]) -> tuple[int, ...]:
    """Return *values* with those that are all ones taken from the ZIP64 extra field."""
    try:
        fields = extra_fields(extra)
    except ValueError as error:
        raise source.refuse(str(error), name) from None
    if problem := extras_problem([identifier for identifier, _ in fields]):
        raise source.refuse(problem, name)
    found = dict(fields)
    wide, count = found.get(EXTRA_ZIP64, b""), sum(value == MAX32 for value in values)
    if len(wide) != 8 * count:
        raise source.refuse(
            f"its ZIP64 field is {counted(len(wide), 'byte')} long, not {8 * count}", name
        )
    numbers = iter(_wide_numbers(wide))
    real = tuple(next(numbers) if value == MAX32 else value for value in values)
    if EXTRA_ZIP64 in found and not _needs_wide(values, real):
        raise source.refuse("has a ZIP64 field that it does not need", name)
    return real


def _wide_numbers(content: bytes) -> list[int]:
    return [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)]


def _needs_wide(values: tuple[int, ...], real: tuple[int, ...]) -> bool:
    """Say whether each of *values* that refers to *real* has to.

    The two sizes do so together: a local header must hold both (APPNOTE 4.5.3).
    """
    sizes, offset = max(real[:2]), real[2:]
    needed = (sizes, sizes, *offset)
    return MAX32 in values and all(
        need >= MAX32 for value, need in zip(values, needed, strict=True) if value == MAX32
    )


def _follow(
    source: Source, listed: list[ZipEntry], directory: CentralDirectory
) -> dict[int, ZipEntry]:
    """Return the entries by offset, with their start; each must begin where the last one ends."""
    placed: dict[int, ZipEntry] = {}
    at, last = 0, "the start of the file"
    for entry in sorted(listed, key=lambda entry: entry.offset):
        if entry.offset != at:
            wrong = (
                "overlaps"
                if entry.offset < at
                else f"begins {counted(entry.offset - at, 'byte')} after"
            )
            raise source.refuse(f"{wrong} {last}", entry.name)
        placed[at] = found = _read_local(source, entry)
        at, last = found.end, f"entry {entry.name!r}"
        if at > directory.offset:
            raise source.refuse("overlaps the central directory", entry.name)
    if at != directory.offset:
        raise source.refuse(f"has {counted(directory.offset - at, 'byte')} outside every entry")
    return placed


def _read_local(source: Source, entry: ZipEntry) -> ZipEntry:
    """Return *entry* with its start; its local header must say what the directory says."""
    raw = source.read(entry.offset, LOCAL.size)
    fixed = LOCAL.unpack(raw)
    if fixed is None:
        raise source.refuse("has no local header", entry.name)
    version, flags, method, time, date, crc, packed, size, name_size, extra_size = fixed
    names = source.read(entry.offset + LOCAL.size, name_size + extra_size)
    size, packed = _widen(source, entry.name, names[name_size:], (size, packed))
    said = {
        "name": (names[:name_size], entry.raw_name),
        "version": (version, entry.version),
        "flags": (flags, entry.flags),
        "method": (method, entry.method),
        "time": ((time, date), entry.stamp),
        "CRC-32": (crc, entry.crc),
        "packed size": (packed, entry.packed_size),
        "size": (size, entry.size),
    }
    for what, (local, central) in said.items():
        if local != central:
            reason = f"its local header and the central directory differ in {what}"
            raise source.refuse(f"{reason}: {local!r}, {central!r}", entry.name)
    start = entry.offset + LOCAL.size + name_size + extra_size
    return replace(entry, start=start)

# SPDX-License-Identifier: Apache-2.0
"""Writes a zip file whose bytes depend on nothing but names, order and content."""

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from stat import S_IFREG
from typing import BinaryIO, Final

from servekit_archiver.counting import counted
from servekit_archiver.errors import ArchiveError
from servekit_archiver.limits import DEFAULT_LIMITS
from servekit_archiver.zip.format import (
    ALIGNMENT,
    CENTRAL,
    DEFLATED,
    END,
    END64,
    EXTRA_ALIGNMENT,
    EXTRA_ZIP64,
    LOCAL,
    LOCATOR64,
    MAX32,
    STORED,
    UTF8,
)
from servekit_archiver.zip.source import CHUNK_BYTES

__all__ = ["ZipWriter"]

EPOCH: Final = (0, 1 << 5 | 1)  #: MS-DOS time and date of 1980-01-01 00:00:00
UNIX: Final = 3 << 8
MODE: Final = (S_IFREG | 0o644) << 16
LEVEL: Final = 6


@dataclass(slots=True, kw_only=True)
class _Header:
    """The facts of one file that its local header and the central directory both have."""

    name: bytes
    offset: int
    size: int
    method: int
    crc: int = 0
    packed_size: int = 0

    def _fixed(self) -> tuple[int, ...]:
        flags = 0 if self.name.isascii() else UTF8
        version = 20 if max(self.size, self.offset) < MAX32 else 45
        sizes = (MAX32, MAX32) if self.size >= MAX32 else (self.packed_size, self.size)
        return version, flags, self.method, *EPOCH, self.crc, *sizes

    def local(self) -> bytes:
        extra = self._wide(self.size, self.packed_size) if self.size >= MAX32 else b""
        if self.method == STORED and self.size:
            extra += _padding(self.offset + LOCAL.size + len(self.name) + len(extra))
        return LOCAL.pack(*self._fixed(), len(self.name), len(extra)) + self.name + extra

    def central(self) -> bytes:
        wide = [self.size, self.packed_size] if self.size >= MAX32 else []
        wide += [self.offset] if self.offset >= MAX32 else []
        extra = self._wide(*wide) if wide else b""
        version, *fixed = self._fixed()
        lengths = len(self.name), len(extra), 0, 0, 0
        offset = min(self.offset, MAX32)
        record = CENTRAL.pack(UNIX | version, version, *fixed, *lengths, MODE, offset)
        return record + self.name + extra

    @staticmethod
    def _wide(*values: int) -> bytes:
        content = b"".join(value.to_bytes(8, "little") for value in values)
        return _extra(EXTRA_ZIP64, content)


class ZipWriter:
    """Writes entries one after another, then the central directory."""

    def __init__(self, file: BinaryIO, listed: bytes = b"", count: int = 0) -> None:
        """Write to *file*, which nobody reads yet, from where it stands.

        :param listed: the central directory of the *count* entries that it holds.
        """
        self._file = file
        self._listed, self._count = listed, count
        self._headers: list[_Header] = []

    def add(
        self, name: str, source: BinaryIO, size: int, *, stored: bool, seen: Callable[[int], None]
    ) -> str:
        """Write *size* bytes of *source* as the file *name*; return their SHA-256.

        A file that deflating does not make smaller, or makes so small that a reader would
        take it for a bomb, is stored as well.

        :param stored: do not deflate.
        :param seen: called with the number of bytes after each read.
        :raises ArchiveError: *source* is not *size* bytes long.
        """
        offset = self._file.tell()
        header = _Header(name=name.encode(), offset=offset, size=size, method=DEFLATED)
        if stored or not size:
            header.method = STORED
        digest = self._write(header, source, seen)
        packed = header.packed_size
        if header.method == DEFLATED and (
            packed >= size or DEFAULT_LIMITS.exceeds_ratio(size, packed)
        ):
            header.method = STORED
            source.seek(0)
            if self._write(header, source, lambda _: None) != digest:
                raise ArchiveError(f"{name}: changed while it was being read")
        self._headers.append(header)
        return digest

    def finish(self) -> None:
        """Write the central directory and the end record."""
        offset = self._file.tell()
        self._file.write(self._listed)
        for header in self._headers:
            self._file.write(header.central())
        size, count = self._file.tell() - offset, self._count + len(self._headers)
        if offset >= MAX32 or size >= MAX32:
            end = self._file.tell()
            wide = (END64.size - 12, UNIX | 45, 45, 0, 0, count, count, size, offset)
            self._file.write(END64.pack(*wide) + LOCATOR64.pack(0, end, 1))
        self._file.write(END.pack(0, 0, count, count, min(size, MAX32), min(offset, MAX32), 0))

    def _write(self, header: _Header, source: BinaryIO, seen: Callable[[int], None]) -> str:
        """Write header and content at the header's offset, over whatever is there."""
        self._file.seek(header.offset)
        self._file.truncate()
        self._file.write(header.local())  # its length is final, its numbers are not
        start = self._file.tell()
        digest = self._write_content(header, source, seen)
        end = self._file.tell()
        header.packed_size = end - start
        self._file.seek(header.offset)
        self._file.write(header.local())
        self._file.seek(end)
        return digest

    def _write_content(self, header: _Header, source: BinaryIO, seen: Callable[[int], None]) -> str:
        sha256, size = hashlib.sha256(), 0
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        deflated = header.method == DEFLATED
        header.crc = 0
        while piece := source.read(CHUNK_BYTES):
            size += len(piece)
            header.crc = zlib.crc32(piece, header.crc)
            sha256.update(piece)
            self._file.write(packer.compress(piece) if deflated else piece)
            seen(len(piece))
        if deflated:
            self._file.write(packer.flush())
        if size != header.size:
            name = header.name.decode()
            raise ArchiveError(f"{name}: changed while it was being read ({counted(size, 'byte')})")
        return sha256.hexdigest()


def _padding(position: int) -> bytes:
    """Return the extra field that moves what follows *position* to a multiple of ALIGNMENT."""
    gap = -position % ALIGNMENT
    if gap == 0:
        return b""
    least = 6  # identifier, length, alignment
    size = gap if gap >= least else gap + ALIGNMENT
    return _extra(EXTRA_ALIGNMENT, ALIGNMENT.to_bytes(2, "little").ljust(size - 4, b"\0"))


def _extra(identifier: int, content: bytes) -> bytes:
    return identifier.to_bytes(2, "little") + len(content).to_bytes(2, "little") + content

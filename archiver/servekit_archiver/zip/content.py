# SPDX-License-Identifier: Apache-2.0
"""Reads the content of an entry, and checks it against everything that was said about it."""

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from servekit_archiver.counting import counted
from servekit_archiver.zip.format import STORED, ZipEntry
from servekit_archiver.zip.source import CHUNK_BYTES, Source

__all__ = ["copy_content", "read_content"]

RAW: Final = -zlib.MAX_WBITS  #: deflate without a zlib header


def read_content(source: Source, entry: ZipEntry) -> bytes:
    """Return the content of a small entry."""
    pieces: list[bytes] = []
    copy_content(source, entry, pieces.append)
    return b"".join(pieces)


def copy_content(source: Source, entry: ZipEntry, write: Callable[[bytes], object]) -> str:
    """Hand the content of *entry* to *write* in pieces; return its SHA-256.

    Never hands over more bytes than the entry's size.

    :raises ArchiveError: the content is not what the archive says it is.
    """
    sha256, crc, size = hashlib.sha256(), 0, 0
    pieces = _stored(source, entry) if entry.method == STORED else _inflated(source, entry)
    for piece in pieces:
        size += len(piece)
        if size > entry.size:
            raise source.refuse(
                f"unpacks to more than its {counted(entry.size, 'byte')}", entry.name
            )
        crc = zlib.crc32(piece, crc)
        sha256.update(piece)
        write(piece)
    if size != entry.size:
        raise source.refuse(
            f"unpacks to {counted(size, 'byte')} instead of {entry.size}", entry.name
        )
    if crc != entry.crc:
        raise source.refuse("its content does not match its CRC-32", entry.name)
    return sha256.hexdigest()


def _packed(source: Source, entry: ZipEntry) -> Iterator[bytes]:
    for offset in range(entry.start, entry.end, CHUNK_BYTES):
        yield source.read(offset, min(CHUNK_BYTES, entry.end - offset))


_stored = _packed


def _inflated(source: Source, entry: ZipEntry) -> Iterator[bytes]:
    inflater = zlib.decompressobj(RAW)
    packed = _packed(source, entry)
    while not inflater.eof:
        waiting = inflater.unconsumed_tail or next(packed, b"")
        try:
            piece = inflater.decompress(waiting, CHUNK_BYTES)
        except zlib.error as error:
            raise source.refuse(f"does not unpack: {error}", entry.name) from None
        if not piece and not waiting:
            raise source.refuse("its packed content is cut short", entry.name)
        yield piece
    if inflater.unused_data or next(packed, b""):
        raise source.refuse("has bytes after its packed content", entry.name)

# SPDX-License-Identifier: Apache-2.0
"""Puts a signature into an archive. Plugins make signatures, and decide which ones to trust."""

import io
from pathlib import Path

from servekit_archiver.archive.builder import draft
from servekit_archiver.archive.reader import Archive
from servekit_archiver.errors import ArchiveError
from servekit_archiver.limits import DEFAULT_LIMITS, SIGNATURE_BYTES
from servekit_archiver.names import SIGNATURE
from servekit_archiver.zip.end import find_directory
from servekit_archiver.zip.format import CENTRAL
from servekit_archiver.zip.source import CHUNK_BYTES, Source
from servekit_archiver.zip.writer import ZipWriter

__all__ = ["write_signed"]


def write_signed(path: Path, output: Path, signature: bytes, *, force: bool = False) -> None:
    """Write the archive at *path* to *output*, with *signature* in place of the one it has.

    Files, manifest and digest do not change: the signature is the last entry, and no other part of
    the archive names it.

    :param force: replace an existing file; *output* may then be *path*.
    :raises ArchiveError: either file is refused.
    """
    if len(signature) > SIGNATURE_BYTES:
        raise ArchiveError(
            f"{path}: its signature is {len(signature)} bytes, limit {SIGNATURE_BYTES}"
        )
    with Source(path) as source:
        end, listed, count = _unsigned(source, Archive(source, DEFAULT_LIMITS))
        with draft(output, force) as copy:
            for offset in range(0, end, CHUNK_BYTES):
                copy.write(source.read(offset, min(CHUNK_BYTES, end - offset)))
            writer = ZipWriter(copy, listed, count)
            content = io.BytesIO(signature)
            writer.add(SIGNATURE, content, len(signature), stored=False, seen=lambda _: None)
            writer.finish()


def _unsigned(source: Source, archive: Archive) -> tuple[int, bytes, int]:
    """Return the end of the entries, their central directory and number, without a signature."""
    directory = find_directory(source, DEFAULT_LIMITS)
    listed = source.read(directory.offset, directory.size)
    entry = archive.signature_entry
    if entry is None:
        return directory.offset, listed, directory.count
    record = listed.rfind(CENTRAL.signature)
    name = listed[record + CENTRAL.size :][: len(entry.raw_name)]
    if entry.end != directory.offset or name != entry.raw_name:
        raise source.refuse("is not the last entry, so it cannot be replaced", SIGNATURE)
    return entry.offset, listed[:record], directory.count - 1

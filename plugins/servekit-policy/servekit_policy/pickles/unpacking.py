# SPDX-License-Identifier: Apache-2.0
"""Compressed streams, unpacked as they are read."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Final, cast

__all__ = ["Bounded", "unpacking"]

READ_BYTES: Final = 8 << 30  #: unpacked from one stream
ZLIB: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def unpacking(head: bytes) -> Callable[[IO[bytes]], IO[bytes]] | None:
    """Return what unpacks a stream that begins with *head*, as joblib recognizes it."""
    if head.startswith(b"\x1f\x8b"):
        return lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if head.startswith(b"BZ"):
        return lambda file: cast("IO[bytes]", bz2.BZ2File(file))
    if head.startswith((b"\xfd7zXZ", b"\x5d\0")):
        return lambda file: cast("IO[bytes]", lzma.LZMAFile(file))
    if head.startswith(ZLIB):
        return lambda file: cast("IO[bytes]", _Zlib(file))
    return None


class _Zlib(io.RawIOBase):
    """Unpacks a zlib stream, as joblib writes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._unpacker = file, zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        size = 1 << 20 if size < 0 else size
        while True:
            unpacker = self._unpacker
            waiting = unpacker.unused_data or unpacker.unconsumed_tail or self._file.read(1 << 16)
            if unpacker.eof:
                if not waiting:
                    return b""
                self._unpacker = zlib.decompressobj()  # another stream follows
            if piece := self._unpacker.decompress(waiting, size):
                return piece
            if not waiting:
                raise EOFError("cut short")


class Bounded(io.RawIOBase):
    """Reads at most READ_BYTES of what another stream unpacks."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, READ_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        piece = self._stream.read(len(buffer))
        self._left -= len(piece)
        if self._left < 0:
            raise ValueError(f"unpacks to more than {READ_BYTES} bytes")
        buffer[: len(piece)] = piece
        return len(piece)

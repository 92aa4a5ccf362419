# SPDX-License-Identifier: Apache-2.0
"""Bytes to frames, one at a time, so that each is judged before it costs anything. No socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from h2.errors import ErrorCodes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DATA", "HEADERS", "HEADER_BYTES", "SETTINGS", "Frame", "FrameError", "Frames"]

#: types (RFC 9113 6)
DATA, HEADERS, SETTINGS, CONTINUATION = 0x0, 0x1, 0x4, 0x9
ACK, END_STREAM, END_HEADERS = 0x1, 0x1, 0x4
HEADER_BYTES = 9
MAX_PAYLOAD = 16_384  #: what we say in SETTINGS_MAX_FRAME_SIZE


class FrameError(Exception):
    """The connection cannot go on (RFC 9113 5.4.1)."""

    def __init__(self, code: ErrorCodes, text: str) -> None:
        """Say *text* for *code*."""
        super().__init__(text)
        self.code = code


class Frame(NamedTuple):
    """One frame as it came."""

    kind: int
    flags: int
    stream_id: int
    data: bytes  #: all of it, with its header

    @property
    def is_void(self) -> bool:
        """It says nothing: a DATA frame without data that ends no stream."""
        return self.kind == DATA and len(self.data) == HEADER_BYTES and not self.flags & END_STREAM


class Frames:
    """Collects what is read; remembers how much of a header block is under way."""

    __slots__ = ("_block_bytes", "_data", "_max_block", "is_in_block")

    def __init__(self, max_block: int) -> None:
        """Take header blocks of *max_block* bytes at most, as they are on the wire."""
        self._data = bytearray()
        self._max_block = max_block
        self._block_bytes = 0
        self.is_in_block = False  #: HEADERS has come, and END_HEADERS has not

    @property
    def is_midway(self) -> bool:
        """A frame, or a header block, has begun and is not whole; DATA has a clock of its own."""
        return self.is_in_block or (bool(self._data) and self.begun is None)

    @property
    def begun(self) -> tuple[int, int] | None:
        """Stream and bytes of a DATA frame that has begun."""
        data = self._data
        if len(data) < HEADER_BYTES or data[3] != DATA:
            return None
        return int.from_bytes(data[5:9], "big"), len(data)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now.

        :raises FrameError: one is too large, or a header block is.
        """
        buffer = self._data
        buffer += data
        start, end = 0, len(buffer)
        while end - start >= HEADER_BYTES:
            size = int.from_bytes(buffer[start : start + 3], "big")
            if size > MAX_PAYLOAD:
                raise FrameError(ErrorCodes.FRAME_SIZE_ERROR, f"frame: limit {MAX_PAYLOAD} bytes")
            if end - start < HEADER_BYTES + size:
                break
            kind, flags = buffer[start + 3], buffer[start + 4]
            if kind in (HEADERS, CONTINUATION):
                self._follow_block(flags, size)
            elif kind == SETTINGS and flags & ACK and size:
                raise FrameError(ErrorCodes.FRAME_SIZE_ERROR, "SETTINGS: an answer with content")
            stream_id = int.from_bytes(buffer[start + 5 : start + 9], "big") & 0x7FFFFFFF
            stop = start + HEADER_BYTES + size
            yield Frame(kind, flags, stream_id, bytes(buffer[start:stop]))
            start = stop
        del buffer[:start]

    def _follow_block(self, flags: int, size: int) -> None:
        self._block_bytes += size
        if self._block_bytes > self._max_block:
            text = f"header block: limit {self._max_block} bytes"
            raise FrameError(ErrorCodes.ENHANCE_YOUR_CALM, text)
        self.is_in_block = not flags & END_HEADERS
        if not self.is_in_block:
            self._block_bytes = 0

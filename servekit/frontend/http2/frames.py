# SPDX-License-Identifier: Apache-2.0
"""Bytes to frames, one at a time, so that each is judged before it costs anything. No socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from h2.errors import ErrorCodes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CONTINUATION",
    "DATA",
    "END_STREAM",
    "HEADERS",
    "HEADER_BYTES",
    "SETTINGS",
    "Frame",
    "FrameError",
    "Frames",
]

#: types (RFC 9113 6)
DATA, HEADERS, SETTINGS, CONTINUATION = 0x0, 0x1, 0x4, 0x9
ACK, END_STREAM, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
HEADER_BYTES = 9
MAX_PAYLOAD = 16_384  #: what we say in SETTINGS_MAX_FRAME_SIZE
MAX_PARTS = 512  #: of DATA that are taken as one


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
    parts: int = 1  #: that came, and say as one what each said

    @property
    def content_bytes(self) -> int:
        """How many of its bytes are neither frame header nor padding."""
        size = len(self.data) - HEADER_BYTES
        return max(0, size - 1 - self.data[HEADER_BYTES]) if self.flags & PADDED and size else size


class Frames:
    """Collects what is read; remembers how much of a header block is under way."""

    __slots__ = ("_at", "_block_bytes", "_data", "_max_block", "is_in_block")

    def __init__(self, max_block: int) -> None:
        """Take header blocks of *max_block* bytes at most, as they are on the wire."""
        self._data = bytearray()
        self._at = 0  #: what comes before has been taken
        self._max_block = max_block
        self._block_bytes = 0
        self.is_in_block = False  #: HEADERS has come, and END_HEADERS has not

    @property
    def is_midway(self) -> bool:
        """A frame, or a header block, has begun and is not whole; DATA has a clock of its own."""
        return self.is_in_block or (len(self._data) > self._at and self.begun is None)

    @property
    def begun(self) -> tuple[int, int] | None:
        """Stream and bytes of a DATA frame that has begun."""
        data, at = self._data, self._at
        if len(data) - at < HEADER_BYTES or data[at + 3] != DATA:
            return None
        return int.from_bytes(data[at + 5 : at + 9], "big"), len(data) - at

    def add(self, data: bytes) -> None:
        """Keep *data*, which has been read."""
        del self._data[: self._at]
        self._at = 0
        self._data += data

    def take(self) -> Iterator[Frame]:
        """Yield the frames that are whole now; who stops in between may go on later.

        :raises FrameError: one is too large, or a header block is.
        """
        buffer = self._data
        start, end = self._at, len(buffer)
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
            stop, data, parts = start + HEADER_BYTES + size, b"", 1
            if kind == DATA and not flags:
                stop, data, parts = self._join(start, stop)
            self._at = stop
            yield Frame(kind, flags, stream_id, data or bytes(buffer[start:stop]), parts)
            start = stop

    def _join(self, start: int, stop: int) -> tuple[int, bytes, int]:
        """Take the frames behind one of DATA that go on with its stream, as far as one may be long.

        So small ones cost little more than their bytes.

        :return: where the last one ends; all of them as one frame, if there are several; how many.
        """
        pieces: list[bytes | bytearray] = []
        buffer = self._data
        kind_to_stream, size = buffer[start + 3 : start + HEADER_BYTES], stop - start - HEADER_BYTES
        while buffer[stop + 3 : stop + HEADER_BYTES] == kind_to_stream:
            more = int.from_bytes(buffer[stop : stop + 3], "big")
            end = stop + HEADER_BYTES + more
            if size + more > MAX_PAYLOAD or end > len(buffer) or len(pieces) >= MAX_PARTS:
                break
            pieces.append(buffer[stop + HEADER_BYTES : end])
            size, stop = size + more, end
        if not pieces:
            return stop, b"", 1
        first = start + HEADER_BYTES
        pieces.insert(0, buffer[first : first + size - sum(map(len, pieces))])
        return stop, size.to_bytes(3, "big") + kind_to_stream + b"".join(pieces), len(pieces)

    def _follow_block(self, flags: int, size: int) -> None:
        self._block_bytes += size
        if self._block_bytes > self._max_block:
            text = f"header block: limit {self._max_block} bytes"
            raise FrameError(ErrorCodes.ENHANCE_YOUR_CALM, text)
        self.is_in_block = not flags & END_HEADERS
        if not self.is_in_block:
            self._block_bytes = 0

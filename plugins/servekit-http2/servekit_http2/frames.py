# SPDX-License-Identifier: Apache-2.0
"""Bytes to frames, one at a time, so that each is checked before it costs anything. No socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from h2.errors import ErrorCodes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_STREAM",
    "HEADERS",
    "HEADER_BYTES",
    "PUSH_PROMISE",
    "SETTINGS",
    "WINDOW_UPDATE",
    "Frame",
    "FrameError",
    "FrameSplitter",
]

#: types (RFC 9113 6)
DATA, HEADERS, SETTINGS, PUSH_PROMISE, WINDOW_UPDATE, CONTINUATION = 0x0, 0x1, 0x4, 0x5, 0x8, 0x9
ACK, END_STREAM, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
HEADER_BYTES = 9
MAX_PAYLOAD = 16_384  #: the default of SETTINGS_MAX_FRAME_SIZE, which we keep
MAX_PARTS = 512  #: frames of DATA that are joined


class FrameError(Exception):
    """A connection error (RFC 9113 5.4.1): the connection has to end."""

    def __init__(self, code: ErrorCodes, text: str) -> None:
        """End the connection with *code*; *text* is logged."""
        super().__init__(text)
        self.code = code


class Frame(NamedTuple):
    """One frame as it was sent, or several of DATA as one."""

    kind: int
    flags: int
    stream_id: int
    data: bytes  #: the whole frame, with its header
    parts: int = 1  #: frames that were joined

    @property
    def content_bytes(self) -> int:
        """How many of its bytes are neither frame header nor padding."""
        size = len(self.data) - HEADER_BYTES
        return max(0, size - 1 - self.data[HEADER_BYTES]) if self.flags & PADDED and size else size


class FrameSplitter:
    """Collects what is read, and limits header blocks."""

    __slots__ = ("_at", "_block_bytes", "_data", "_max_block", "is_in_block")

    def __init__(self, max_block: int) -> None:
        """Accept header blocks of at most *max_block* bytes, as they are on the wire."""
        self._data = bytearray()
        self._at = 0  #: where the first frame that was not taken begins
        self._max_block = max_block
        self._block_bytes = 0
        self.is_in_block = False  #: HEADERS has come, and END_HEADERS has not

    @property
    def is_midway(self) -> bool:
        """Whether a frame or a header block is incomplete; DATA is timed by its exchange."""
        return self.is_in_block or (len(self._data) > self._at and self.begun is None)

    @property
    def held(self) -> int:
        """Bytes that have arrived of a frame, and of a header block, that are incomplete."""
        return len(self._data) - self._at + self._block_bytes

    @property
    def begun(self) -> tuple[int, int] | None:
        """Stream and bytes of a DATA frame that is incomplete."""
        data, at = self._data, self._at
        if len(data) - at < HEADER_BYTES or data[at + 3] != DATA:
            return None
        return int.from_bytes(data[at + 5 : at + 9], "big"), len(data) - at

    def add(self, data: bytes) -> None:
        """Add *data*, which has been read."""
        del self._data[: self._at]
        self._at = 0
        self._data += data

    def take(self) -> Iterator[Frame]:
        """Yield the frames that are whole now; the caller may stop in between and continue later.

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
                raise FrameError(
                    ErrorCodes.FRAME_SIZE_ERROR, "SETTINGS: an acknowledgement with content"
                )
            stream_id = int.from_bytes(buffer[start + 5 : start + 9], "big") & 0x7FFFFFFF
            stop, data, parts = start + HEADER_BYTES + size, b"", 1
            if kind == DATA and not flags:
                stop, data, parts = self._join(start, stop)
            self._at = stop
            yield Frame(kind, flags, stream_id, data or bytes(buffer[start:stop]), parts)
            start = stop

    def _join(self, start: int, stop: int) -> tuple[int, bytes, int]:
        """Join the frames after one of DATA that continue its stream, up to the maximal length.

        So small frames cost little more than their bytes.

        :return: where the last one ends; all as one frame, if there are several; their number.
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

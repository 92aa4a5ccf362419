# SPDX-License-Identifier: Apache-2.0
"""Chunked bodies (RFC 9112 7.1): those of requests are decoded, those of responses are written.

llhttp reads header sections only: the extensions that it accepts differ from the grammar.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from servekit.errors import RequestError
from servekit.frontend.http.fields import NOT_IN_TRAILERS
from servekit.frontend.http.socket_writer import MAX_HELD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.http.socket_writer import SocketWriter

__all__ = ["ChunkDecoder", "ChunkWriter"]

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*+"'
BWS = rb"[ \t]*+"
EXTENSION = rb"%b;%b%b(?>%b=%b(?:%b|%b))?+" % (BWS, BWS, TOKEN, BWS, BWS, TOKEN, QUOTED)
HEAD = re.compile(rb"([0-9A-Fa-f]++)(?>%b)*+\r\n" % EXTENSION)
TRAILER = re.compile(rb"(%b):[\t -~\x80-\xff]*+" % TOKEN)
MAX_DIGITS = 64  #: in a size, with leading zeros
MAX_SIZE = 2**63


class ChunkDecoder:
    """Decodes one body, however it is split into pieces. No socket, no clock."""

    __slots__ = ("_add", "_held", "_is_closing", "_is_last", "_left")

    def __init__(self, add: Callable[[bytes], None]) -> None:
        """Call *add* with the content."""
        self._add = add
        self._held = b""  #: a line that is not whole
        self._left = 0  #: bytes of the current chunk that are still to come
        self._is_closing = False  #: the line end after a chunk is expected
        self._is_last = False  #: only trailers are expected

    def feed(self, data: bytes) -> bytes | None:
        """Decode *data*; return the bytes that follow the body, or ``None`` if it continues.

        :raises RequestError: the chunked coding is malformed.
        """
        data = self._held + data if self._held else data
        at, pieces = self._read_chunks(data)
        if pieces:
            self._add(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        is_whole = False
        if self._is_last:
            at, is_whole = read_trailers(data, at)
        self._held = b"" if is_whole else data[at:]
        return data[at:] if is_whole else None

    def _read_chunks(self, data: bytes) -> tuple[int, list[bytes]]:
        """Return the position up to which *data* could be read, and the content before it."""
        at, end, pieces = 0, len(data), []
        while at < end and not self._is_last:
            if self._left:
                pieces.append(data[at : at + self._left])
                at += len(pieces[-1])
                self._left -= len(pieces[-1])
                self._is_closing = not self._left
            elif self._is_closing:
                if data[at : at + 2] == b"\r":
                    break
                if data[at : at + 2] != b"\r\n":
                    raise RequestError("chunk: longer than its size says")
                at, self._is_closing = at + 2, False
            else:
                after = self._read_head(data, at)
                if after == at:
                    break
                at = after
        return at, pieces

    def _read_head(self, data: bytes, at: int) -> int:
        """Read the size of a chunk; return where its line ends, or *at* if it is not whole."""
        head = HEAD.match(data, at)
        if head is None:
            if data.find(b"\n", at) < 0 and not data[at:].rstrip(b"\r").count(b"\r"):
                return at
            raise RequestError("chunk: malformed size or extension")
        size = int(head[1], 16) if len(head[1]) <= MAX_DIGITS else MAX_SIZE
        if size >= MAX_SIZE:
            raise RequestError("chunk: its size exceeds 63 bits")
        self._left, self._is_last = size, not size
        return head.end()


def read_trailers(data: bytes, at: int) -> tuple[int, bool]:
    """Skip the fields after the last chunk; return the position, and whether all have arrived.

    They are checked and ignored: the body has been interpreted without them.
    """
    while (end := data.find(b"\r\n", at)) >= 0:
        line, at = data[at:end], end + 2
        if not line:
            return at, True
        field = TRAILER.fullmatch(line)
        if field is None or field[1].lower() in NOT_IN_TRAILERS:
            raise RequestError("trailer: malformed, or a field that trailers must not have")
    if b"\n" in data[at:]:
        raise RequestError("trailer: a line that ends without CR")
    return at, False


class ChunkWriter:
    """Writes the body of a streamed response, and keeps what the client does not take yet."""

    __slots__ = ("_held", "_is_chunked", "_writer")

    def __init__(self, writer: SocketWriter, *, is_chunked: bool) -> None:
        """Write by *writer*; HTTP/1.0 has no chunks."""
        self._writer, self._is_chunked = writer, is_chunked
        self._held = bytearray()
        writer.on_flushed = self._on_flushed

    def write(self, piece: bytes) -> bool:
        """Write *piece*; return whether the client keeps up."""
        self._put(b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece)
        return len(self._held) <= MAX_HELD_BYTES

    def end(self) -> None:
        """Hand everything to the writer: nothing more will come."""
        if self._is_chunked:
            self._put(b"0\r\n\r\n")
        self._on_flushed()

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not taken all of it yet."""
        return bool(self._writer.rest)

    def _put(self, data: bytes) -> None:
        if self._writer.rest:
            self._held += data
            self._writer.hold(len(data))
        else:
            self._writer.send(data)

    def _on_flushed(self) -> None:
        held, self._held = self._held, bytearray()
        if held:
            self._writer.send(bytes(held))

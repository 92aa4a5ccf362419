# SPDX-License-Identifier: Apache-2.0
"""Responses as bytes of HTTP/1.1: the head, and the chunks of a streamed body."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from servekit.extension.http import NO_LENGTH
from servekit.frontend.http.socket_writer import MAX_HELD_BYTES

if TYPE_CHECKING:
    from servekit.extension.http import HttpResponse
    from servekit.frontend.exchange.date import HttpDate
    from servekit.frontend.http.socket_writer import SocketWriter

__all__ = ["CLOSE", "CONTINUE", "KEEP_ALIVE", "ChunkWriter", "ResponseEncoder"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
KEEP_ALIVE = b"Connection: keep-alive\r\n"
REASONS = {status.value: status.phrase for status in HTTPStatus}
REASONS[413] = "Content Too Large"  # RFC 9110; Python 3.11 still has the old names
REASONS[414] = "URI Too Long"
REASONS[422] = "Unprocessable Content"
MAX_KNOWN = 64


class ResponseEncoder:
    """Encodes responses; what those of the same second have in common is encoded once."""

    __slots__ = ("_date", "_made_at", "_starts")

    def __init__(self, date: HttpDate) -> None:
        """State *date* in each response."""
        self._date = date
        self._made_at = b""
        #: by media type the starts of 200s, by status and media type those of others
        self._starts: dict[str | tuple[int, str], bytes] = {}

    def encode(self, response: HttpResponse, connection: bytes, body: bytes) -> bytes:
        """Return the head of *response*, then *body*.

        :param connection: the line about the connection, if it needs one.
        :param body: as much of the body as follows in the same buffer.
        """
        status, media_type = response.status, response.media_type
        if self._made_at is not self._date.value:
            self._made_at = self._date.value
            self._starts.clear()
        start = self._starts.get(media_type if status == 200 else (status, media_type))
        if start is None:
            start = self._start(status, media_type)
        if response.timing and not response.fields and response.length is None:
            return b"%b%b\r\nServer-Timing: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
                start,
                response.request_id.encode(),
                response.timing,
                len(response.body),
                connection,
                body,
            )
        return b"".join((start, *_lines(response), connection, b"\r\n", body))

    def _start(self, status: int, media_type: str) -> bytes:
        """Return the head up to the value of ``X-Request-Id``."""
        kind = b"Content-Type: %b\r\n" % media_type.encode() if media_type else b""
        start = b"HTTP/1.1 %d %b\r\nDate: %b\r\n%bX-Request-Id: " % (
            status,
            REASONS.get(status, "Unknown").encode(),
            self._made_at,
            kind,
        )
        if len(self._starts) < MAX_KNOWN:
            self._starts[media_type if status == 200 else (status, media_type)] = start
        return start


def _lines(response: HttpResponse) -> list[bytes]:
    """Return the value of ``X-Request-Id``, and the header lines after it."""
    lines = [response.request_id.encode("latin-1"), b"\r\n"]
    lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in response.fields]
    if response.timing:
        lines.append(b"Server-Timing: %b\r\n" % response.timing)
    length = response.content_length
    if length != NO_LENGTH:
        lines.append(b"Content-Length: %d\r\n" % length)
    return lines


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

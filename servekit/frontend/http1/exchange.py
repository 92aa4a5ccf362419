# SPDX-License-Identifier: Apache-2.0
"""The exchange of an HTTP/1.1 connection: its current request, and the response as bytes."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from servekit.extension.base_exchange import BaseExchange, watched
from servekit.extension.http import NO_LENGTH
from servekit.frontend.http.closed import CLOSED
from servekit.frontend.http.socket_writer import JOIN_BYTES
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http1.chunked import ChunkWriter

if TYPE_CHECKING:
    import socket

    from servekit.errors import ServekitError
    from servekit.extension.exchange import BodyWriter, OutputStream
    from servekit.extension.http import HttpResponse
    from servekit.frontend.exchange.date import HttpDate
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.socket_writer import SocketWriter

__all__ = ["CLOSE", "Http1Exchange", "ResponseEncoder"]

CLOSE = b"Connection: close\r\n"
KEEP_ALIVE = b"Connection: keep-alive\r\n"
REASONS = {status.value: status.phrase for status in HTTPStatus}
REASONS[413] = "Content Too Large"  # RFC 9110; Python 3.11 still has the old names
REASONS[414] = "URI Too Long"
REASONS[422] = "Unprocessable Content"
MAX_KNOWN = 64
#: a prediction from the value of ``X-Request-Id`` on: most have these fields and no others
PREDICTION = b"%b%b\r\nX-Model-Version: %b\r\nServer-Timing: %b\r\nContent-Length: %d\r\n%b\r\n%b"


class ExchangeOwner(Protocol):
    """The connection, as its exchange sees it."""

    @property
    def has_next(self) -> bool:
        """Whether another request has arrived."""

    def on_response(self) -> None:
        """Continue: the response has been written, or waits to be."""


class Http1Exchange(BaseExchange):
    """There is one for each connection, as it answers one request at a time, in order."""

    tells_when_sent = True

    __slots__ = (
        *("_encoder", "_host", "_owner", "_socket", "_writer"),
        *("is_busy", "keeps_alive"),
    )

    def __init__(
        self,
        peer: Any,
        sock: socket.socket | TlsSocket,
        owner: ExchangeOwner,
        host: Host,
        writer: SocketWriter,
        encoder: ResponseEncoder,
    ) -> None:
        """Send the responses of *host* by *writer*."""
        super().__init__(peer)
        self._socket = sock
        self._owner: ExchangeOwner = owner
        self._host = host
        self._writer = writer
        self._encoder = encoder
        self.is_busy = False  #: no other request may begin
        self.keeps_alive = True

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return isinstance(self._socket, TlsSocket)

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    def send(self, response: HttpResponse) -> None:
        """Write *response*."""
        body, connection, request = response.body, b"", self.request
        assert request is not None
        others = self._host.connections
        if (
            not (self.keeps_alive and request.keeps_alive)
            or others.is_crowded
            or (others.is_draining and not self._owner.has_next)
        ):
            self.keeps_alive = False
            connection = CLOSE
        elif request.version == "1.0":
            connection = KEEP_ALIVE
        if request.method == b"HEAD":
            body = b""  # RFC 9110 9.3.2
        if self.observers is not None:
            self.observe_end(response.status, len(body))
        if response.release is None and len(body) < JOIN_BYTES:
            self._writer.send(self._encoder.encode(response, connection, body))  # type: ignore[arg-type]  # joins any buffer
        else:
            head = self._encoder.encode(response, connection, b"")
            self._writer.send_with(head, body, response.release)
        self._end()

    def fail(self, error: ServekitError, request_id: str) -> None:
        """Respond with *error*, and close the connection where memory is short."""
        if self._host.pressure.is_full and self.stream is None:
            self.keeps_alive = False
        super().fail(error, request_id)

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Write the head of *response*, and return what writes its body; then ``end_stream``."""
        self.stream = stream
        if self.filters:
            response = self.filter_stream(response)
        request, others = self.request, self._host.connections
        assert request is not None
        is_chunked = request.version != "1.0"
        self.keeps_alive &= is_chunked and request.keeps_alive
        lines = b"Transfer-Encoding: chunked\r\n" if is_chunked else b""
        if not self.keeps_alive or others.is_draining or others.is_crowded:
            self.keeps_alive = False
            lines += CLOSE
        self._writer.send(self._encoder.encode(response, lines, b""))
        return watched(response, ChunkWriter(self._writer, is_chunked=is_chunked))

    def end_stream(self, size: int, status: int = 200) -> None:
        """End the response: its body has been written, or waits to be."""
        if self.observers is not None:
            self.observe_end(status, size)
        self.stream = None
        self._writer.on_flushed = self._owner.on_response
        self._end()

    def _end(self) -> None:
        self.is_busy, self.request = False, None
        self.prediction = self.filters = self.observers = self.protocol = None
        self.model_version = b""
        if self.trace is not None:
            self._end_trace()
        if not self.is_closed:
            self._owner.on_response()

    def _end_trace(self) -> None:
        """End the trace when the socket has taken the whole response."""
        trace, self.trace = self.trace, None
        if self._writer.rest:
            self._writer.on_sent = trace.finish
        else:
            trace.finish()

    def reset(self) -> None:
        """Close the connection at once: the client does not read the response."""
        if not self.is_closed:
            self._writer.shed()

    def close(self) -> None:
        """Cancel the prediction: the client is gone."""
        self.is_closed = True
        if self.prediction is not None:
            self.prediction.cancel()
            self.prediction = None
        if self.observers is not None:
            self.observe_end(None, 0)
        self._owner = CLOSED


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
        version, timing = response.model_version, response.timing
        if timing and version and not response.fields and response.length is None:
            return PREDICTION % (
                start,
                response.request_id.encode(),
                version,
                timing,
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
    if response.model_version:
        lines.append(b"X-Model-Version: %b\r\n" % response.model_version)
    if response.timing:
        lines.append(b"Server-Timing: %b\r\n" % response.timing)
    length = response.content_length
    if length != NO_LENGTH:
        lines.append(b"Content-Length: %d\r\n" % length)
    return lines

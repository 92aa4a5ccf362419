# SPDX-License-Identifier: Apache-2.0
"""The exchange of an HTTP/1.1 connection: its current request, and the response to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from servekit.extension.base_exchange import BaseExchange
from servekit.frontend.http.socket_writer import JOIN_BYTES
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http1.response import CLOSE, KEEP_ALIVE, ChunkWriter

if TYPE_CHECKING:
    import socket

    from servekit.errors import ServekitError
    from servekit.extension.exchange import OutputStream
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.socket_writer import SocketWriter
    from servekit.frontend.http1.response import ResponseEncoder

__all__ = ["Http1Exchange"]


class ExchangeOwner(Protocol):
    """The connection, as its exchange sees it."""

    @property
    def has_next(self) -> bool:
        """Whether another request has arrived."""

    def on_response(self) -> None:
        """Continue: the response has been written, or waits to be."""


class Http1Exchange(BaseExchange):
    """There is one for each connection, as it answers one request at a time, in order."""

    __slots__ = (
        "_encoder",
        "_host",
        "_is_head",
        "_owner",
        "_socket",
        "_writer",
        "is_busy",
        "keeps_alive",
        "version",
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
        self._owner = owner
        self._host = host
        self._writer = writer
        self._encoder = encoder
        self._is_head = False
        self.is_busy = False  #: a request is being answered
        self.keeps_alive = True
        self.version = ""  #: HTTP version of the last request; "" if none has arrived whole

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return isinstance(self._socket, TlsSocket)

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    def begin(self, request: HttpRequest) -> None:
        """Have *request* answered."""
        host = self._host
        self.is_busy = True
        self.keeps_alive = request.keeps_alive and not host.connections.is_crowded
        self.version = request.version
        self._is_head = request.method == b"HEAD"
        host.handle(self, request)

    def send(self, response: HttpResponse) -> None:
        """Write *response*."""
        body, connection = response.body, b""
        if not self.keeps_alive or (
            self._host.connections.is_draining and not self._owner.has_next
        ):
            self.keeps_alive = False
            connection = CLOSE
        elif self.version == "1.0":
            connection = KEEP_ALIVE
        if self._is_head:
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

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> ChunkWriter:
        """Write the head of *response*, and return what writes its body; then ``end_stream``."""
        self.stream = stream
        if self.filters:
            response = self.filter_stream(response)
        is_chunked = self.version != "1.0"
        lines = b"Transfer-Encoding: chunked\r\n" if is_chunked else b""
        if not (is_chunked and self.keeps_alive) or self._host.connections.is_draining:
            self.keeps_alive = False
            lines += CLOSE
        self._writer.send(self._encoder.encode(response, lines, b""))
        return ChunkWriter(self._writer, is_chunked=is_chunked)

    def end_stream(self, size: int, status: int = 200) -> None:
        """End the response: its body has been written, or waits to be."""
        if self.observers is not None:
            self.observe_end(status, size)
        self.stream = None
        self._writer.on_flushed = self._owner.on_response
        self._end()

    def _end(self) -> None:
        self.is_busy = False
        self.prediction = self.filters = self.observers = self.protocol = None
        if not self.is_closed:
            self._owner.on_response()

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

# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection: drives its reader, and has requests answered one at a time, in order.

Runs as callbacks of the event loop, never blocks. A request whose framing is in doubt is the last.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import RequestError, VersionNotSupported
from servekit.extension.http import HttpRequest
from servekit.frontend.http.placement import count_arrived, lateness_of
from servekit.frontend.http.request_builder import BODY, HEAD, IDLE
from servekit.frontend.http.socket_reader import SocketReader
from servekit.frontend.http.socket_writer import SocketWriter
from servekit.frontend.http1.body_receiver import BodyReceiver
from servekit.frontend.http1.exchange import Http1Exchange
from servekit.frontend.http1.reader import Preface, RequestReader

if TYPE_CHECKING:
    import socket

    from servekit.errors import ServekitError
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.http1.listener import Connect, Http1Listener

__all__ = ["Http1Connection"]

LINGER_BYTES = 65_536  #: read and thrown away of a refused upload
LINGER_S = 2.0  #: how long a refused upload is read, so that the client sees the refusal
SEND_POLL_S = 0.25  #: how often to check a client that is slow to take its response
FRESH_S = 0.5  #: how long a shutdown waits for a client that has just connected
IMPORT_S = 60.0  #: how long the first client of another transport waits until it is imported
NEVER = float("inf")

log = logging.getLogger("servekit.frontend")


class Http1Connection:
    """Owns one accepted socket."""

    __slots__ = (
        *("_accepted_at", "_began", "_body", "_exchange", "_has_begun", "_host", "_input"),
        *("_listener", "_output", "_reader", "_socket", "_stage", "expires"),
    )

    def __init__(self, sock: socket.socket | TlsSocket, peer: Any, listener: Http1Listener) -> None:
        """Serve the client of *sock*, which is non-blocking, at the address *peer*."""
        self._socket = sock
        self._listener = listener
        self._host = host = listener.host
        self._output = SocketWriter(sock, host, self.on_response, self.close)
        self._exchange = Http1Exchange(peer, sock, self, host, self._output, listener.encoder)
        guard = host.guard(self._exchange) if host.guard is not None else None
        self._reader = RequestReader(host.settings, guard, host.pressure, listener.known_heads)
        self._reader.builder.shed = self.expire
        self._body: BodyReceiver | None = None  #: the body of an incomplete request
        self._began = 0.0  #: ``monotonic``: the first byte of the incomplete request
        self._stage = IDLE  #: of the incomplete request whose timeout runs
        self._has_begun = False  #: a request has arrived
        self._accepted_at = monotonic()
        self.expires = self._accepted_at + host.settings.header_timeout
        self._input = SocketReader(sock, host.loop, self)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has been closed."""
        return self._exchange.is_closed

    @property
    def has_next(self) -> bool:
        """Whether another request has arrived."""
        return bool(self._reader.requests)

    def on_data(self, data: bytes) -> None:
        """Read *data*, and do what follows from it."""
        try:
            self._reader.feed(data)
            if self._reader.is_over:
                self._input.pause()
            self._advance()
            builder = self._reader.builder
            is_arriving = builder.stage and not (self._reader.is_over or self.is_closed)
            if is_arriving and (error := count_arrived(builder, len(data))) is not None:
                self._refuse(error)
        except Exception:  # the connection would hang
            log.exception("unexpected error while reading a request")
            self.close()

    def _advance(self) -> None:
        """Take the next event, unless a request is being answered."""
        requests = self._reader.requests
        if not self._exchange.is_busy:
            event = requests.popleft() if requests else self._reader.next_event()
            if isinstance(event, HttpRequest):
                self._begin(event)
            elif isinstance(event, Preface):
                self._hand_over(event.data)
            elif event == BODY:
                self._await_body()
            elif event == HEAD and self._stage != HEAD:
                self._stage, self._began = HEAD, monotonic()
                self.expires = self._began + self._host.settings.header_timeout
        if requests:
            self._input.pause()

    def _begin(self, request: HttpRequest) -> None:
        """Let the host answer *request*."""
        exchange = self._exchange
        self.expires = NEVER
        if self._stage:  # it came in several pieces
            self._stage, request.began = IDLE, self._began
            if self._host.traces is not None:
                self._host.traces.follow_late(exchange, request)
        if not self._has_begun:
            self._has_begun = True
            if request.version and self._listener.is_other(self._socket):
                error = RequestError("ALPN agreed on another protocol, and this is HTTP/1.1")
                self._reader.end(request).refusal = error  # RFC 7301 3.2
        exchange.request, exchange.is_busy = request, True
        self._host.handle(exchange, request)

    def _refuse(self, error: ServekitError) -> None:
        """Refuse the incomplete request, after the responses to those before it."""
        self._input.upload = None
        self._input.pause()
        self._reader.refuse(error)
        self._advance()

    def on_end(self) -> None:
        """The client will send no more: drop its task, unless a worker has it already.

        A client that closes its side during a stream has disconnected.
        """
        exchange, reader = self._exchange, self._reader
        if reader.builder.stage != IDLE and not reader.is_over:
            self._refuse(RequestError("the request ended early"))
        prediction = exchange.prediction
        is_queued = prediction is not None and not prediction.is_sent
        if is_queued or exchange.stream or not (exchange.is_busy or self._output.rest):
            self.close()
        elif prediction is not None:
            prediction.cancel()  # the worker may stop early; its response is still written

    def _hand_over(self, data: bytes) -> None:
        """Leave the socket to another transport; *data* followed its preface."""
        successor = self._listener.successor(self._socket)
        if successor is None or self._has_begun:
            self._refuse(VersionNotSupported("HTTP/2 is not supported here, or not after HTTP/1.1"))
            return
        self._exchange.is_busy = True
        self._input.pause()
        self.expires = monotonic() + IMPORT_S  # the client is not late meanwhile
        successor.when_loaded(lambda connect: self._leave_to(connect, data))

    def _leave_to(self, connect: Connect, data: bytes) -> None:
        if self.is_closed:
            return
        self._exchange.close()  # the socket stays open
        self._reader.close()
        self._input.close()
        self._output.close()
        self._host.connections.discard(self)
        successor = connect(self._socket, self._exchange.peer, self._host)
        self._host.connections.add(successor)
        successor.on_data(data)

    def _await_body(self) -> None:
        """Wait for the rest of a body."""
        if self._stage != BODY:
            if not self._stage:
                self._began = monotonic()
            self._stage = BODY
            builder = self._reader.builder
            self._body = BodyReceiver(
                builder, self._host, self._input, self.expire, self._on_received
            )
            request = self._body.ask(self._output)
            if request is not None:
                self._input.pause()
                self._begin(self._reader.end(request))
                return
        if self._body is not None:  # the client is still there
            self.expires = self._body.expires()
            self._body.place()

    def _on_received(self, is_whole: bool) -> None:
        """Continue after a piece of a large body."""
        assert self._body is not None
        if is_whole:
            self._reader.end_body()
            self._advance()
        else:
            self.expires = self._body.expires()

    def on_response(self) -> None:
        """Take the next request, or close: the response has been written, or waits to be."""
        requests = self._reader.requests
        if self._output.rest:
            now = monotonic()
            self._output.start_clock(now)
            self.expires = now + SEND_POLL_S
            self._input.pause()  # the writer calls again
        elif not self._exchange.keeps_alive:
            if self._reader.is_over and not self._input.is_at_end:
                self.expires = monotonic() + LINGER_S
                self._input.linger(LINGER_BYTES)  # a client that still sends can read the response
            else:
                self.close()
        elif requests:
            self._exchange.is_busy = True
            self._host.slices.defer(self._begin_next)  # others get their turns between two of them
        elif self._input.is_at_end:
            self.close()
        else:
            self.expires = monotonic() + self._host.settings.keep_alive
            if not self._input.is_reading:
                self._input.resume()
            if self._reader.builder.stage != IDLE:
                self._advance()

    def _begin_next(self) -> bool:
        """Take the next request of a pipeline."""
        if not self.is_closed:
            try:
                self._begin(self._reader.requests.popleft())
            except Exception:  # the connection would hang
                log.exception("unexpected error while beginning a request")
                self.close()
        return False

    def expire(self) -> None:
        """Handle a timeout of the client, or a body that waited too long for room."""
        settings, now, reader = self._host.settings, monotonic(), self._reader
        if self._output.rest:
            if self._output.is_stuck(now, settings.send_timeout, settings.body_rate):
                self._output.shed()
            else:
                self.expires = now + SEND_POLL_S
        elif reader.is_over or reader.builder.stage == IDLE:
            self.close()
        else:
            self._refuse(lateness_of(reader.builder))

    def close(self) -> None:
        """Close at once; a prediction in progress is cancelled."""
        if not self.is_closed:
            self._exchange.close()
            self._body = None
            self._reader.close()
            self._input.close()
            self._output.close()
            self._socket.close()
            self._host.connections.discard(self)

    def close_if_idle(self, now: float) -> None:
        """Close unless a request is in progress, or the client has just connected."""
        is_fresh = not self._has_begun and now < self._accepted_at + FRESH_S
        if not self._is_in_use and not is_fresh:
            if self._input.is_reading:
                self._input.read()  # data may have arrived since the last event
            if not self._is_in_use:
                self.close()

    @property
    def _is_in_use(self) -> bool:
        return bool(self._exchange.is_busy or self._output.rest or self._reader.builder.stage)

# SPDX-License-Identifier: Apache-2.0
"""The streams of one HTTP/2 connection: what its frames mean for them, and what they ask for."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from h2 import events
from h2.errors import ErrorCodes

from servekit.frontend.transport import MAX_HEADERS, TlsSocket, do_nothing
from servekit_http2.exchange import Http2Exchange
from servekit_http2.flood_guard import FloodGuard
from servekit_http2.frames import DATA, HEADERS, SETTINGS, FrameError
from servekit_http2.protocol import MAX_STREAMS, MalformedRequest, ServerProtocol
from servekit_http2.request_builder import check_trailers
from servekit_http2.scheduler import Scheduler

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.transport import Host
    from servekit_http2.frames import Frame
    from servekit_http2.hpack_encoder import Fields
    from servekit_http2.interfaces import ScheduledStream

__all__ = ["Streams"]

GOODBYE = b"goodbye."  #: data of a PING: when it comes back, the client has read the GOAWAY
STREAMS, FIELDS = 16, 8  #: that make the work of a frame: woken, and above MAX_HEADERS

log = logging.getLogger("servekit.frontend")


class Streams:
    """Owns the exchanges, the protocol and the scheduler of a connection."""

    __slots__ = (
        "_guard",
        "_on_sent",
        "_protocol",
        "_socket",
        "exchanges",
        "host",
        "is_encrypted",
        "is_greeted",
        "is_leaving",
        "peer",
        "scheduler",
        "wake",
    )

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        peer: Any,
        host: Host,
        on_sent: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Begin without a stream; *sock* is written to, not read.

        :param on_sent: called after each turn of writing.
        :param on_lost: called when the connection is broken.
        """
        self.host, self.peer = host, peer
        self.is_encrypted = isinstance(sock, TlsSocket)
        self._socket = sock
        self._on_sent = on_sent
        self._protocol = ServerProtocol(host.settings.max_header)
        self._guard = FloodGuard(monotonic())
        self.scheduler = Scheduler(sock, host, self._protocol, self._credit, on_lost)
        self.wake = self.scheduler.wake
        self.exchanges: dict[int, Http2Exchange] = {}  #: by stream, those that are open
        self.is_greeted = False  #: SETTINGS has arrived
        self.is_leaving = False  #: no new stream is answered

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    @property
    def is_done(self) -> bool:
        """Whether it has answered every request, and at least one."""
        return not self.exchanges and self.last_opened > 0

    @property
    def last_opened(self) -> int:
        """The last stream that the client has opened; 0 if there was none."""
        return self._protocol.highest_inbound_stream_id

    # ------------------------------------------------------------ frames

    def take(self, frame: Frame) -> None:
        """Handle *frame*.

        :raises FrameError: the connection has to end.
        """
        now = monotonic()
        self._guard.charge_frame(frame, now)
        if frame.stream_id not in self.exchanges:  # an answer to a closed stream costs us again
            if frame.kind == DATA:
                self._guard.charge(now, frame.parts)
            elif frame.kind == HEADERS and self._protocol.has_seen(frame.stream_id):
                self._guard.charge_reset(now)
        if not self.is_greeted:
            if frame.kind != SETTINGS:
                raise FrameError(ErrorCodes.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self.is_greeted = True
        try:
            for event in self._protocol.take(frame):
                self._on_event(event)
        except MalformedRequest as error:
            log.debug("stream %d of %s ends: %s", frame.stream_id, self.peer, error)
            self._drop(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def take_part(self, stream_id: int, size: int) -> None:
        """Count *size* bytes of a DATA frame that is not whole."""
        if stream_id in self.exchanges:
            self.exchanges[stream_id].take_part(size)

    def _on_event(self, event: events.Event) -> None:
        stream_id = getattr(event, "stream_id", 0)
        if isinstance(event, events.RequestReceived):
            self._on_request(event)
        elif stream_id in self.exchanges:
            self._on_stream(self.exchanges[stream_id], event)
        elif not stream_id:
            self._on_connection(event)
        if isinstance(event, events.StreamReset):
            self._guard.charge_reset(monotonic())

    def _on_stream(self, exchange: Http2Exchange, event: events.Event) -> None:
        match event:
            case events.DataReceived():
                is_last = event.stream_ended is not None
                exchange.take(event.data, event.flow_controlled_length, is_last=is_last)
            case events.TrailersReceived():
                check_trailers(event.headers)
            case events.StreamEnded():
                exchange.take_end()
            case events.StreamReset():
                exchange.close()
            case events.WindowUpdated() if exchange.outgoing.is_waiting:
                self.wake(exchange)

    def _on_connection(self, event: events.Event) -> None:
        match event:
            case events.WindowUpdated() | events.RemoteSettingsChanged():
                waiting = [each for each in self.exchanges.values() if each.outgoing.is_waiting]
                self._guard.charge(monotonic(), len(waiting) / STREAMS)
                self.wake(*waiting)
            case events.PingAckReceived() if event.ping_data == GOODBYE:
                self.say_last()
            case events.ConnectionTerminated():
                self.is_leaving = True  # earlier requests are answered

    def _on_request(self, event: events.RequestReceived) -> None:
        host, stream_id = self.host, event.stream_id
        is_full = len(host.connections) >= host.settings.max_connections
        if len(self.exchanges) >= MAX_STREAMS:
            self._drop(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        if self.is_leaving or is_full:
            self.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            self._guard.charge(monotonic())
            return
        if len(event.headers) > MAX_HEADERS:  # most are repeated, or it will be refused
            self._guard.charge(monotonic(), len(event.headers) / FIELDS)
        self._guard.credit_request()
        exchange = self.exchanges[stream_id] = Http2Exchange(self, stream_id)
        host.connections.add(exchange)
        exchange.open(event.headers, is_end=event.stream_ended is not None)

    def _drop(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream without a response."""
        exchange = self.exchanges.get(stream_id)
        if exchange is not None:
            exchange.reset(code)
        else:
            self.reset_stream(stream_id, code)
        self._guard.charge_reset(monotonic())

    # ------------------------------------------------------------ for exchanges

    def send_fields(self, stream_id: int, fields: Fields) -> None:
        """Send the fields of an interim response."""
        self._protocol.send_headers(stream_id, fields)
        self.wake()

    def acknowledge(self, stream_id: int, counted: int) -> None:
        """Let the client send *counted* more bytes on a stream."""
        if counted:
            self._protocol.acknowledge_received_data(counted, stream_id)
            self.wake()

    def widen(self, stream_id: int, count: int) -> None:
        """Let the client have *count* more bytes in flight from now on."""
        self._protocol.increment_flow_control_window(count, stream_id)
        self.wake()

    def reset_stream(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream."""
        self._protocol.reset_stream(stream_id, code)
        self.wake()

    def forget(self, stream: ScheduledStream) -> None:
        """Forget *stream*: it is closed."""
        self.exchanges.pop(stream.stream_id, None)
        self.host.connections.discard(stream)

    # ------------------------------------------------------------ for the connection

    def say_goodbye(self) -> None:
        """Ask the client to leave; requests that it sent before it read this are answered."""
        self.scheduler.flush(self._protocol.goodbye(ErrorCodes.NO_ERROR, is_last=False))
        self._protocol.ping(GOODBYE)
        self.scheduler.flush()

    def say_last(self) -> None:
        """Tell the client which stream is the last, once."""
        if not self.is_leaving:
            self.is_leaving = True
            self.scheduler.flush(self._protocol.goodbye(ErrorCodes.NO_ERROR, is_last=True))

    def fail(self, code: ErrorCodes) -> None:
        """Close all exchanges, and tell the client why."""
        self._close_exchanges()
        self.scheduler.flush(self._protocol.goodbye(code, is_last=True))

    def _close_exchanges(self) -> None:
        for exchange in list(self.exchanges.values()):
            exchange.close()

    def close(self) -> None:
        """Close everything: the connection is closed."""
        self._close_exchanges()
        self.scheduler.close()
        self._protocol.forget()
        self._on_sent = do_nothing

    def _credit(self, sent: int) -> None:
        self._guard.credit(sent)
        self._on_sent()

# SPDX-License-Identifier: Apache-2.0
"""The streams of one HTTP/2 connection: what its frames mean for them, and what they ask for."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from h2 import events
from h2.errors import ErrorCodes

from servekit.frontend.http.request_builder import MAX_HEADERS
from servekit.frontend.http2.exchange import Exchange
from servekit.frontend.http2.flood_guard import Patience
from servekit.frontend.http2.frames import DATA, HEADERS, SETTINGS, FrameError
from servekit.frontend.http2.protocol import MAX_STREAMS, MalformedRequest, Protocol
from servekit.frontend.http2.request_builder import check_trailers
from servekit.frontend.http2.scheduler import Turns

if TYPE_CHECKING:
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http2.connection import Http2Connection
    from servekit.frontend.http2.frames import Frame
    from servekit.frontend.http2.hpack_encoder import Fields

__all__ = ["Streams"]

GOODBYE = b"goodbye."  #: of a PING: when it comes back, the client has heard
STREAMS, FIELDS = 16, 8  #: that make the work of a frame: woken, and more than a request may have

log = logging.getLogger("servekit.frontend")


class Streams:
    """Belongs to an ``Http2Connection``, and is what its exchanges know of it."""

    __slots__ = (
        "_patience",
        "_protocol",
        "connection",
        "exchanges",
        "host",
        "is_greeted",
        "is_leaving",
        "turns",
    )

    def __init__(self, connection: Http2Connection, sock: Any) -> None:
        """Begin without a stream; *sock* is written to, and not read."""
        self.connection = connection
        self.host: Host = connection.host
        self._protocol = Protocol(self.host.settings.max_header)
        self._patience = Patience(monotonic())
        self.turns = Turns(sock, self.host, self._protocol, self._on_sent, connection.close)
        self.exchanges: dict[int, Exchange] = {}  #: by stream, those that are not over
        self.is_greeted = False  #: SETTINGS has come
        self.is_leaving = False  #: no stream comes any more that is answered

    # ------------------------------------------------------------ what frames mean

    def take(self, frame: Frame) -> None:
        """Do what *frame* asks for.

        :raises FrameError: the connection cannot go on.
        """
        now = monotonic()
        self._patience.bear(frame, now)
        if frame.kind in (DATA, HEADERS) and frame.stream_id not in self.exchanges:
            self._bear_late(frame, now)
        if not self.is_greeted:
            if frame.kind != SETTINGS:
                raise FrameError(ErrorCodes.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self.is_greeted = True
        try:
            for event in self._protocol.take(frame):
                self._on_event(event)
        except MalformedRequest as error:
            log.debug("stream %d of %s ends: %s", frame.stream_id, self.connection.peer, error)
            self._drop(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def _bear_late(self, frame: Frame, now: float) -> None:
        """Count what comes on a stream that is over, and is answered by its end once more."""
        if frame.kind == DATA:
            self._patience.bear_chatter(now, frame.parts)
        elif frame.stream_id <= self._protocol.highest_inbound_stream_id:
            self._patience.bear_reset(now)

    def hear(self, stream_id: int, size: int) -> None:
        """*size* bytes have come of a frame of a body that is not whole."""
        if stream_id in self.exchanges:
            self.exchanges[stream_id].hear(size)

    def _on_event(self, event: events.Event) -> None:
        stream_id = getattr(event, "stream_id", 0)
        if isinstance(event, events.RequestReceived):
            self._on_request(event)
        elif stream_id in self.exchanges:
            self._tell(self.exchanges[stream_id], event)
        elif not stream_id:
            self._on_connection(event)
        if isinstance(event, events.StreamReset):
            self._patience.bear_reset(monotonic())

    def _tell(self, exchange: Exchange, event: events.Event) -> None:
        match event:
            case events.DataReceived():
                exchange.take(event.data, event.flow_controlled_length)
            case events.TrailersReceived():
                check_trailers(event.headers)
            case events.StreamEnded():
                exchange.take_end()
            case events.StreamReset():
                exchange.close()
            case events.WindowUpdated() if exchange.outgoing.is_waiting:
                self.turns.wake(exchange)

    def _on_connection(self, event: events.Event) -> None:
        match event:
            case events.WindowUpdated() | events.RemoteSettingsChanged():
                waiting = [each for each in self.exchanges.values() if each.outgoing.is_waiting]
                self._patience.bear_chatter(monotonic(), len(waiting) / STREAMS)
                self.turns.wake(*waiting)
            case events.PingAckReceived() if event.ping_data == GOODBYE:
                self.say_last()
            case events.ConnectionTerminated():
                self.is_leaving = True  # what it has asked is answered

    def _on_request(self, event: events.RequestReceived) -> None:
        host, stream_id = self.host, event.stream_id
        is_full = len(host.connections) >= host.settings.max_connections
        if len(self.exchanges) >= MAX_STREAMS:
            self._drop(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        if self.is_leaving or is_full:
            self.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            self._patience.bear_chatter(monotonic())
            return
        if len(event.headers) > MAX_HEADERS:  # most are repeated, or it will be refused
            self._patience.bear_chatter(monotonic(), len(event.headers) / FIELDS)
        self._patience.earn_request()
        exchange = self.exchanges[stream_id] = Exchange(self, stream_id)
        host.connections.add(exchange)
        exchange.open(event.headers, is_end=event.stream_ended is not None)

    def _drop(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream that gets no answer."""
        exchange = self.exchanges.get(stream_id)
        if exchange is not None:
            exchange.reset(code)
        else:
            self.reset_stream(stream_id, code)
        self._patience.bear_reset(monotonic())

    # ------------------------------------------------------------ what exchanges ask for

    def send_fields(self, stream_id: int, fields: Fields) -> None:
        """Send the fields of what is no answer yet."""
        self._protocol.send_headers(stream_id, fields)
        self.turns.wake()

    def acknowledge(self, stream_id: int, counted: int) -> None:
        """Let the client send *counted* bytes more on a stream."""
        if counted:
            self._protocol.acknowledge_received_data(counted, stream_id)
            self.turns.wake()

    def widen(self, stream_id: int, count: int) -> None:
        """Let it have *count* more on their way, from now on."""
        self._protocol.increment_flow_control_window(count, stream_id)
        self.turns.wake()

    def reset_stream(self, stream_id: int, code: ErrorCodes) -> None:
        """Tell the client that a stream is over."""
        self._protocol.reset_stream(stream_id, code)
        self.turns.wake()

    def forget(self, exchange: Exchange) -> None:
        """*exchange* is over."""
        self.exchanges.pop(exchange.stream_id, None)
        self.host.connections.discard(exchange)

    # ------------------------------------------------------------ what the connection asks for

    def say_goodbye(self) -> None:
        """Tell the client to go elsewhere; what comes before it has heard is answered."""
        self.turns.flush(self._protocol.goodbye(ErrorCodes.NO_ERROR, is_last=False))
        self._protocol.ping(GOODBYE)
        self.turns.flush()

    def say_last(self) -> None:
        """Tell it which stream is the last, once."""
        if not self.is_leaving:
            self.is_leaving = True
            self.turns.flush(self._protocol.goodbye(ErrorCodes.NO_ERROR, is_last=True))

    def fail(self, code: ErrorCodes) -> None:
        """Answer nothing more, and say why."""
        self.close_all()
        self.turns.flush(self._protocol.goodbye(code, is_last=True))

    def close_all(self) -> None:
        """Nobody waits for any answer."""
        for exchange in list(self.exchanges.values()):
            exchange.close()

    def close(self) -> None:
        """The connection is closed."""
        self.close_all()
        self.turns.close()
        self._protocol.forget()

    def _on_sent(self, size: int) -> None:
        self._patience.earn(size)
        self.connection.keep_time()

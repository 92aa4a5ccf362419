# SPDX-License-Identifier: Apache-2.0
"""One HTTP/2 connection: its socket, what its frames mean, its end.

Runs as callbacks of the event loop, never blocks.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

from h2 import events
from h2.errors import ErrorCodes

from servekit.frontend.connection import RESET
from servekit.frontend.http2.exchange import LINGER_S, NEVER, SEND_LOOK_S, Exchange
from servekit.frontend.http2.frames import SETTINGS, FrameError, Frames
from servekit.frontend.http2.logged import LoggedExchange
from servekit.frontend.http2.patience import Patience
from servekit.frontend.http2.protocol import MAX_STREAMS, MalformedRequest, Protocol
from servekit.frontend.http2.turns import Turns
from servekit.frontend.parsing import READ_BYTES
from servekit.frontend.tls import TlsSocket

if TYPE_CHECKING:
    from hpack import HeaderTuple

    from servekit.frontend.http2.frames import Frame
    from servekit.frontend.management import Door
    from servekit.frontend.server import FrontEnd

__all__ = ["Http2Connection"]

READ = 1
LINGER_BYTES = 262_144  #: read of a connection that is over, so that its client sees why
GOODBYE_S = 1.0  #: how long the client has to hear that it is to ask elsewhere
GOODBYE = b"goodbye."  #: of a PING: when it comes back, the client has heard

#: what is waited for: that the client goes on, takes what we say, is answered, asks again
UNKNOWN, SAYING, TAKING, BUSY, IDLE = range(5)

log = logging.getLogger("servekit.frontend")


class Http2Connection:
    """Owns one socket whose client has said that it speaks HTTP/2."""

    __slots__ = (
        "_frames",
        "_goodbye_at",
        "_is_greeted",
        "_is_leaving",
        "_is_over",
        "_linger_bytes",
        "_patience",
        "_protocol",
        "_socket",
        "_state",
        "_turns",
        "_watcher",
        "exchanges",
        "expires",
        "front_end",
        "is_closed",
        "peer",
    )

    def __init__(
        self, sock: socket.socket | TlsSocket, peer: Any, front_end: FrontEnd | Door
    ) -> None:
        """Take *sock*, of which the preface has been read."""
        now = monotonic()
        self._socket = sock
        self.front_end = front_end
        self.peer = peer
        max_header = front_end.settings.max_header
        self._frames = Frames(max_header + front_end.settings.max_target)
        self._protocol = Protocol(max_header)
        self._patience = Patience(now)
        self._turns = Turns(sock, front_end, self._protocol, self._on_sent, self.close)
        self.exchanges: dict[int, Exchange] = {}  #: by stream, those that are not over
        self.expires = now + front_end.settings.header_timeout
        self.is_closed = False
        self._is_greeted = False  #: SETTINGS has come
        self._is_over = False  #: nothing is answered any more
        self._goodbye_at = 0.0  #: when the client was told to go
        self._is_leaving = False  #: no stream comes any more that is answered
        self._state = SAYING
        self._linger_bytes = LINGER_BYTES
        self._watcher: Any = front_end.loop.io(sock.fileno(), READ)
        self._watcher.start(self._on_readable)

    @property
    def is_encrypted(self) -> bool:
        """It is TLS."""
        return isinstance(self._socket, TlsSocket)

    @property
    def subject(self) -> str:
        """Of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    # ------------------------------------------------------------ bytes -> frames -> events

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._linger_bytes -= len(data) if self._is_over else 0
        if not data or self._linger_bytes <= 0:
            self.close()
        elif not self._is_over:
            self.feed(data)

    def feed(self, data: bytes) -> None:
        """Do what *data* asks for."""
        try:
            for frame in self._frames.feed(data):
                self._on_frame(frame, monotonic())
                if self._is_over:  # or closed
                    return
                if self._state == SAYING and not self._frames.is_in_block:
                    self._state = UNKNOWN  # the next frame has a clock of its own
        except FrameError as error:
            log.debug("HTTP/2 connection of %s ends: %s", self.peer, error)
            self._fail(error.code)
        except Exception:  # noqa: BLE001 - else the loop would go on with a connection that hangs
            self.front_end.log_exception("while reading HTTP/2")
            self.close()
        if not self._is_over:
            self._hear_begun()
            self._turns.take()

    def _hear_begun(self) -> None:
        """Of a slow body, which comes in frames of its client's own size."""
        begun = self._frames.begun
        if begun is not None and begun[0] in self.exchanges:
            self.exchanges[begun[0]].hear(begun[1])

    def _on_frame(self, frame: Frame, now: float) -> None:
        self._patience.bear(frame, now)
        if not self._is_greeted:
            if frame.kind != SETTINGS:
                raise FrameError(ErrorCodes.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._is_greeted = True
        try:
            for event in self._protocol.take(frame):
                self._on_event(event)
        except MalformedRequest as error:
            log.debug("HTTP/2 stream %d of %s ends: %s", frame.stream_id, self.peer, error)
            self._drop(frame.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def _on_event(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived():
                self._on_request(event)
            case events.DataReceived():
                self._on_data(event)
            case events.StreamEnded():
                self._on_end(event)
            case events.StreamReset():
                self._on_reset(event)
            case events.WindowUpdated() if event.stream_id:
                self._on_window(event)
            case events.WindowUpdated() | events.RemoteSettingsChanged():
                self._turns.wake(*(e for e in self.exchanges.values() if e.outgoing.is_waiting))
            case events.PingAckReceived() if self._goodbye_at and event.ping_data == GOODBYE:
                self._say_last()
            case events.ConnectionTerminated():
                self._is_leaving = True  # what it has asked is answered

    def _on_request(self, event: events.RequestReceived) -> None:
        front_end, stream_id = self.front_end, event.stream_id
        is_full = len(front_end.connections) >= front_end.settings.max_connections
        if self._is_leaving or is_full or len(self.exchanges) >= MAX_STREAMS:
            self._drop(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        kind = Exchange if front_end.access_log is None else LoggedExchange
        exchange = self.exchanges[stream_id] = kind(self, stream_id)
        watched: Any = exchange  # stands where a connection does
        front_end.add(watched)
        exchange.open(event.headers, is_end=event.stream_ended is not None)

    def _on_data(self, event: events.DataReceived) -> None:
        exchange = self.exchanges.get(event.stream_id)
        if exchange is not None:
            exchange.take(event.data, event.flow_controlled_length)

    def _on_end(self, event: events.StreamEnded) -> None:
        exchange = self.exchanges.get(event.stream_id)
        if exchange is not None:
            exchange.take_end()

    def _on_reset(self, event: events.StreamReset) -> None:
        exchange = self.exchanges.get(event.stream_id)
        if exchange is not None:
            exchange.close()
        self._patience.bear_reset(monotonic())

    def _drop(self, stream_id: int, code: ErrorCodes) -> None:
        """End a stream that gets no answer."""
        exchange = self.exchanges.get(stream_id)
        if exchange is not None:
            exchange.reset(code)
        else:
            self._protocol.reset_stream(stream_id, code)
        self._patience.bear_reset(monotonic())

    def _on_window(self, event: events.WindowUpdated) -> None:
        if event.stream_id in self.exchanges:
            self._turns.wake(self.exchanges[event.stream_id])

    # ------------------------------------------------------------ what exchanges ask for

    def wake(self, exchange: Exchange) -> None:
        """Have what *exchange* has to send sent in its turn."""
        self._turns.wake(exchange)

    def send_fields(self, exchange: Exchange, fields: list[HeaderTuple]) -> None:
        """Send the fields of what is no answer yet."""
        self._protocol.send_headers(exchange.stream_id, fields)

    def acknowledge(self, exchange: Exchange, counted: int) -> None:
        """Let the client of *exchange* send *counted* bytes more."""
        if counted:
            self._protocol.acknowledge_received_data(counted, exchange.stream_id)
            self._turns.wake()

    def widen(self, exchange: Exchange, count: int) -> None:
        """Let it have *count* more on their way, from now on."""
        self._protocol.increment_flow_control_window(count, exchange.stream_id)
        self._turns.wake()

    def reset_stream(self, stream_id: int, code: ErrorCodes) -> None:
        """Tell the client that a stream is over."""
        self._protocol.reset_stream(stream_id, code)
        self._turns.wake()

    def forget(self, exchange: Exchange) -> None:
        """*exchange* is over."""
        self.exchanges.pop(exchange.stream_id, None)
        self.front_end.connections.discard(exchange)

    # ------------------------------------------------------------ time, and the end

    def _on_sent(self, size: int) -> None:
        self._patience.earn(size)
        self._keep_time()

    def _keep_time(self) -> None:
        """Set the clock anew if something else is waited for than before."""
        if self.is_closed or self._is_over:
            return
        settings = self.front_end.settings
        if self._turns.sender.rest:
            state, limit_s = TAKING, SEND_LOOK_S
        elif self._frames.is_midway or not self._is_greeted:
            state, limit_s = SAYING, settings.header_timeout
        elif self.exchanges:
            state, limit_s = BUSY, NEVER
        elif self._is_leaving:
            self._end()
            return
        else:
            state, limit_s = IDLE, settings.keep_alive
        if state != self._state:
            self._state = state
            self.expires = monotonic() + limit_s

    def expire(self) -> None:
        """The client let a timeout pass."""
        settings, now = self.front_end.settings, monotonic()
        if self._is_over:
            self.close()
        elif self._turns.sender.rest:
            if self._turns.sender.is_stuck(now, settings.send_timeout, settings.body_rate):
                self.reset()
            else:
                self.expires = now + SEND_LOOK_S
        else:
            self._fail(ErrorCodes.NO_ERROR if self._state == IDLE else ErrorCodes.PROTOCOL_ERROR)

    def close_if_idle(self, now: float) -> None:
        """Take leave of the client, and close once it has every answer.

        It is told first that it is to go, then which stream is the last: what it sent before
        it heard that is answered too (RFC 9113 6.8).
        """
        if self._is_over:
            self.close()
        elif not self._goodbye_at:
            self._goodbye_at = now
            self._turns.flush(self._protocol.say_goodbye(ErrorCodes.NO_ERROR, is_last=False))
            self._protocol.ping(GOODBYE)
            self._turns.flush()
        elif now >= self._goodbye_at + GOODBYE_S:
            self._say_last()
        self._keep_time()

    def _say_last(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._turns.flush(self._protocol.say_goodbye(ErrorCodes.NO_ERROR, is_last=True))

    def _fail(self, code: ErrorCodes) -> None:
        """Answer nothing more, and say why."""
        for exchange in list(self.exchanges.values()):
            exchange.close()
        self._turns.flush(self._protocol.say_goodbye(code, is_last=True))
        if not self.is_closed:
            self._end()

    def _end(self) -> None:
        """Close, once the client could read our last words."""
        self._is_over = True
        self.expires = monotonic() + LINGER_S
        if not self._turns.sender.rest:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close at once, and free what the kernel holds for the client."""
        if not self.is_closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.close()

    def close(self) -> None:
        """Close at once; nobody waits for the answers any more."""
        if self.is_closed:
            return
        self.is_closed = self._is_over = True
        for exchange in list(self.exchanges.values()):
            exchange.close()
        self._watcher.stop()
        self._watcher.close()
        self._turns.close()
        self._socket.close()
        self.front_end.connections.discard(self)

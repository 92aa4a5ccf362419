# SPDX-License-Identifier: Apache-2.0
"""One HTTP/2 connection: its socket, its timeouts, its end.

Runs as callbacks of the event loop, never blocks.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from h2.errors import ErrorCodes

from servekit.frontend.transport import ArrivingRequest, SocketReader, do_nothing
from servekit_http2.exchange import LINGER_S, NEVER, SEND_POLL_S
from servekit_http2.frames import FrameError, FrameSplitter
from servekit_http2.streams import Streams

if TYPE_CHECKING:
    import socket

    from servekit.frontend.transport import Host, TlsSocket

__all__ = ["Http2Connection"]

LINGER_BYTES = 262_144  #: read and thrown away after the end, so that the client sees why
BUSY_S = 1.0  #: how long a connection has to become idle, before its client may be asked to leave
GOODBYE_S = 1.0  #: how long the client has to read the first GOAWAY

#: reason of the timeout: the rest of a frame, room for pending data, responses, a request
UNKNOWN, READING, WRITING, BUSY, IDLE = range(5)

log = logging.getLogger("servekit.frontend")


class Http2Connection:
    """Owns one socket whose client has sent the preface of HTTP/2."""

    __slots__ = (
        "_arriving",
        "_frames",
        "_goodbye_at",
        "_has_asked",
        "_host",
        "_input",
        "_is_behind",
        "_is_over",
        "_opened_before",
        "_output",
        "_peer",
        "_socket",
        "_state",
        "_streams",
        "expires",
        "is_closed",
    )

    def __init__(self, sock: socket.socket | TlsSocket, peer: Any, host: Host) -> None:
        """Serve the client of *sock*, whose preface has been read, at the address *peer*."""
        self._socket = sock
        self._host = host
        self._peer = peer
        self._frames = FrameSplitter(host.settings.max_header + host.settings.max_target)
        self._arriving = ArrivingRequest(host.pressure, self._shed)  #: the bytes in ``_frames``
        self._streams = Streams(sock, peer, host, self._set_timeout, self.close)
        self._output = self._streams.scheduler.output
        self.expires = monotonic() + host.settings.header_timeout
        self.is_closed = False
        self._is_over = False  #: no response is sent any more
        self._is_behind = False  #: frames that have arrived wait for a time slice
        self._goodbye_at = 0.0  #: when the client may be asked to leave, or was
        self._opened_before = 0  #: its last stream when the server began to stop
        self._has_asked = False  #: the client was asked to leave
        self._state = READING
        self._input = SocketReader(sock, host.loop, self)

    # ------------------------------------------------------------ bytes -> frames

    def on_end(self) -> None:
        """Close: the client has closed its side."""
        self.close()

    def on_data(self, data: bytes) -> None:
        """Handle the frames in *data*, in several turns of the loop if they are many."""
        self._frames.add(data)
        self._is_behind = True
        self._host.slices.run(self._work)
        if self.is_closed:
            return
        if self._is_behind:
            self._input.pause()
        elif not self._frames.held:
            self._arriving.end()
        elif not self._arriving.hold(self._frames.held, self._arriving.moved + len(data)):
            self._shed()

    def _shed(self) -> None:
        """End the connection: others need the memory of its incomplete frame more."""
        if not self._is_over:
            self._fail(ErrorCodes.ENHANCE_YOUR_CALM)

    def _work(self) -> bool:
        """Take frames for a time slice; return whether some are left."""
        self._is_behind = False
        try:
            self._is_behind = not self._is_over and self._take_frames()
        except FrameError as error:
            log.debug("HTTP/2 connection of %s ends: %s", self._peer, error)
            self._fail(error.code)
        except Exception:  # the connection would hang
            log.exception("unexpected error while reading HTTP/2")
            self.close()
        if self.is_closed:
            return False
        if not self._is_behind:
            self._input.resume()
        self._streams.scheduler.take()
        return self._is_behind

    def _take_frames(self) -> bool:
        slices = self._host.slices
        for frame in self._frames.take():
            self._streams.take(frame)
            if self._is_over:
                return False
            if self._state == READING and not self._frames.is_in_block:
                self._state = UNKNOWN  # the next frame has another timeout
            if slices.is_over:
                return True
        if begun := self._frames.begun:
            self._streams.take_part(*begun)
        return False

    # ------------------------------------------------------------ time

    def _set_timeout(self) -> None:
        """Restart the timeout if it is for something else than before."""
        if self._is_over:
            return
        settings = self._host.settings
        if self._output.rest:
            state, limit_s = WRITING, SEND_POLL_S
        elif self._frames.is_midway or not self._streams.is_greeted:
            state, limit_s = READING, settings.header_timeout
        elif self._streams.exchanges:
            state, limit_s = BUSY, NEVER
        elif self._streams.is_leaving:
            self._end()
            return
        elif self._host.connections.is_draining and self._streams.is_done and not self._is_behind:
            self._streams.say_last()
            self._end()
            return
        else:
            state, limit_s = IDLE, settings.keep_alive
        if state != self._state:
            self._state = state
            self.expires = monotonic() + limit_s

    def expire(self) -> None:
        """Handle a timeout of the client."""
        settings, now, output = self._host.settings, monotonic(), self._output
        if self._is_over:
            self.close()
        elif not output.rest:
            self._fail(ErrorCodes.NO_ERROR if self._state == IDLE else ErrorCodes.PROTOCOL_ERROR)
        elif output.is_stuck(now, settings.send_timeout, settings.body_rate):
            output.shed()
        else:
            self.expires = now + SEND_POLL_S

    # ------------------------------------------------------------ the end

    def close_if_idle(self, now: float) -> None:
        """Ask the client to leave, and close once it has every response.

        When no request is in progress, one GOAWAY names the last stream that was answered; the
        client may repeat later ones elsewhere. Clients that use ``h2`` cannot read a response after
        a GOAWAY, so a connection with requests has as long as they take. Only a client that opens
        more streams meanwhile is asked to leave by a first GOAWAY, and a second one names the last
        stream that is answered, with those that it sent before it read the first (RFC 9113 6.8).
        Closing would drop what the kernel has not sent yet. So the connection ends when the client
        closes it, or when its timeout passes; at once only if it was idle and the kernel has sent
        everything.
        """
        if self._is_over:
            if self._state == IDLE and not self._output.count_held():
                self.close()
            return
        streams = self._streams
        if streams.is_done and not self._is_behind and not self._frames.is_midway:
            streams.say_last()
        elif not self._goodbye_at:
            self._goodbye_at, self._opened_before = now + BUSY_S, streams.last_opened
        elif self._has_asked:
            if now >= self._goodbye_at + GOODBYE_S:
                streams.say_last()
        elif now >= self._goodbye_at and self._does_not_wait():
            self._goodbye_at, self._has_asked = now, True
            streams.say_goodbye()
        self._set_timeout()

    def _does_not_wait(self) -> bool:
        """Whether the client does not just wait for the responses to its requests."""
        return not self._streams.exchanges or self._streams.last_opened > self._opened_before

    def _fail(self, code: ErrorCodes) -> None:
        """Send no more responses, say why, and close."""
        self._streams.fail(code)
        if not self.is_closed:
            self._end()

    def _end(self) -> None:
        """Close once the client could read the last frames."""
        self._is_over = True
        self._streams.scheduler.end()
        self.expires = monotonic() + LINGER_S
        if self._output.rest:
            self._input.discard(LINGER_BYTES)
        else:
            self._input.linger(LINGER_BYTES)

    def close(self) -> None:
        """Close at once; predictions in progress are cancelled."""
        if self.is_closed:
            return
        self.is_closed = self._is_over = True
        self._arriving.end()
        self._arriving.shed = do_nothing
        self._input.close()
        self._streams.close()
        self._socket.close()
        self._host.connections.discard(self)

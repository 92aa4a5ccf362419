# SPDX-License-Identifier: Apache-2.0
"""One HTTP/2 connection: its socket, what is waited for, its end.

Runs as callbacks of the event loop, never blocks.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

from h2.errors import ErrorCodes

from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http.writer import RESET
from servekit.frontend.http1.parser import READ_BYTES
from servekit.frontend.http2.exchange import LINGER_S, NEVER, SEND_LOOK_S
from servekit.frontend.http2.frames import FrameError, Frames
from servekit.frontend.http2.streams import Streams

if TYPE_CHECKING:
    from servekit.frontend.exchange.host import Host

__all__ = ["Http2Connection"]

READ = 1
LINGER_BYTES = 262_144  #: read of a connection that is over, so that its client sees why
GOODBYE_S = 1.0  #: how long the client has to hear that it is to ask elsewhere

#: what is waited for: that the client goes on, takes what we say, is answered, asks again
UNKNOWN, SAYING, TAKING, BUSY, IDLE = range(5)

log = logging.getLogger("servekit.frontend")


class Http2Connection:
    """Owns one socket whose client has said that it speaks HTTP/2."""

    __slots__ = (
        "_frames",
        "_goodbye_at",
        "_is_behind",
        "_is_over",
        "_linger_bytes",
        "_socket",
        "_state",
        "_streams",
        "_watcher",
        "expires",
        "host",
        "is_closed",
        "peer",
    )

    def __init__(self, sock: socket.socket | TlsSocket, peer: Any, host: Host) -> None:
        """Take *sock*, of which the preface has been read."""
        self._socket = sock
        self.host = host
        self.peer = peer
        self._frames = Frames(host.settings.max_header + host.settings.max_target)
        self._streams = Streams(self, sock)
        self.expires = monotonic() + host.settings.header_timeout
        self.is_closed = False
        self._is_over = False  #: nothing is answered any more
        self._is_behind = False  #: frames that have come wait for their turn
        self._goodbye_at = 0.0  #: when the client was told to go
        self._state = SAYING
        self._linger_bytes = LINGER_BYTES
        self._watcher: Any = host.loop.io(sock.fileno(), READ)
        self._watcher.start(self._on_readable)

    @property
    def is_encrypted(self) -> bool:
        """It is TLS."""
        return isinstance(self._socket, TlsSocket)

    @property
    def subject(self) -> str:
        """Of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    # ------------------------------------------------------------ bytes -> frames

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
        """Do what *data* asks for, what takes long in several turns of the loop."""
        self._frames.add(data)
        self._is_behind = True
        self.host.slices.run(self._work)
        if self._is_behind and not self.is_closed:
            self._watcher.stop()  # what comes meanwhile stays with the kernel

    def _work(self) -> bool:
        """Take frames for a moment; return whether some are left."""
        self._is_behind = False
        try:
            self._is_behind = not self._is_over and self._take_frames()
        except FrameError as error:
            log.debug("HTTP/2 connection of %s ends: %s", self.peer, error)
            self._fail(error.code)
        except Exception:  # else the loop would go on with a connection that hangs
            log.exception("unexpected error while reading HTTP/2")
            self.close()
        if self.is_closed:
            return False
        if not self._is_behind and not self._watcher.active:
            self._watcher.start(self._on_readable)
        self._streams.turns.take()
        return self._is_behind

    def _take_frames(self) -> bool:
        slices = self.host.slices
        for frame in self._frames.take():
            self._streams.take(frame)
            if self._is_over:
                return False
            if self._state == SAYING and not self._frames.is_in_block:
                self._state = UNKNOWN  # the next frame has a clock of its own
            if slices.is_over:
                return True
        if begun := self._frames.begun:
            self._streams.hear(*begun)
        return False

    # ------------------------------------------------------------ time, and the end

    def keep_time(self) -> None:
        """Set the clock anew if something else is waited for than before."""
        if self._is_over:
            return
        settings = self.host.settings
        if self._streams.turns.sender.rest:
            state, limit_s = TAKING, SEND_LOOK_S
        elif self._frames.is_midway or not self._streams.is_greeted:
            state, limit_s = SAYING, settings.header_timeout
        elif self._streams.exchanges:
            state, limit_s = BUSY, NEVER
        elif self._streams.is_leaving:
            self._end()
            return
        else:
            state, limit_s = IDLE, settings.keep_alive
        if state != self._state:
            self._state = state
            self.expires = monotonic() + limit_s

    def expire(self) -> None:
        """The client let a timeout pass."""
        settings, now, sender = self.host.settings, monotonic(), self._streams.turns.sender
        if self._is_over:
            self.close()
        elif not sender.rest:
            self._fail(ErrorCodes.NO_ERROR if self._state == IDLE else ErrorCodes.PROTOCOL_ERROR)
        elif sender.is_stuck(now, settings.send_timeout, settings.body_rate):
            self.reset()
        else:
            self.expires = now + SEND_LOOK_S

    def close_if_idle(self, now: float) -> None:
        """Take leave of the client, and close once it has every answer.

        It is told first that it is to go, then which stream is the last: what it sent before
        it heard that is answered too (RFC 9113 6.8). What the kernel has not sent would be lost
        by closing: a connection that is over ends when its client closes it, or by ``expire``;
        at once only if nothing was asked since we took leave, and its kernel has all.
        """
        if self._is_over:
            if self._state == IDLE and not self._streams.turns.sender.count_held():
                self.close()
            return
        if not self._goodbye_at:
            self._goodbye_at = now
            self._streams.say_goodbye()
        elif now >= self._goodbye_at + GOODBYE_S:
            self._streams.say_last()
        self.keep_time()

    def _fail(self, code: ErrorCodes) -> None:
        """Answer nothing more, say why, and close."""
        self._streams.fail(code)
        if not self.is_closed:
            self._end()

    def _end(self) -> None:
        """Close, once the client could read our last words."""
        self._is_over = True
        self._streams.turns.end()
        self.expires = monotonic() + LINGER_S
        if not self._streams.turns.sender.rest:
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
        self._watcher.stop()
        self._watcher.close()
        self._streams.close()
        self._socket.close()
        self.host.connections.discard(self)

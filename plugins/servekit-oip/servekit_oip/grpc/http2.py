# SPDX-License-Identifier: Apache-2.0
"""The HTTP/2 of a gRPC server (RFC 9113): its connections.

It does what gRPC needs and no more: no priorities, no push, no tables for fields that are sent.
Runs in: front-ends, as callbacks of their event loop.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if (
    find_spec("google") is None
    or find_spec("google.protobuf") is None
    or find_spec("hpack") is None
):
    raise ImportError("protobuf or hpack is missing: pip install 'servekit-oip[grpc]'")

from servekit.frontend.transport import SocketReader
from servekit_oip.grpc import frames
from servekit_oip.grpc.frames import CALM, HEADERS, ProtocolError
from servekit_oip.grpc.sending import GrpcSender
from servekit_oip.grpc.silence import SilenceClock
from servekit_oip.grpc.streams import MAX_CONTENT, NO_ERROR, CallStreams

if TYPE_CHECKING:
    import socket

    from servekit.frontend.transport import Host, TlsSocket

__all__ = ["GrpcConnection"]

LOOK_S: Final = 0.1  #: how often clients are looked at that we wait for
LINGER_S: Final = 2.0  #: how long a client has to read the last frames
LINGER_BYTES: Final = 262_144
LOOK_FRAMES: Final = 15  #: a mask of the count of frames: where it is 0, the clock is looked at
STREAM_MASK: Final = 2**31 - 1
FRAME_SIZE_ERROR: Final = 6
PING: Final = frames.frame(frames.PING, 0, 0, bytes(8))

log = logging.getLogger("servekit.grpc")


class GrpcConnection:
    """One connection of a client."""

    def __init__(self, sock: socket.socket | TlsSocket, peer: Any, host: Host) -> None:
        """Serve the client of *sock*, whose preface has been read, at the address *peer*."""
        self._socket, self._host = sock, host
        self._rest = b""  #: bytes that have not been handled
        self._is_over = self.is_closed = False
        self._silence = SilenceClock(host.settings)
        self._looks_soon = True  #: in less than LOOK_S
        self.expires = self._silence.heard_at + LOOK_S
        self._sender = sender = GrpcSender(
            sock,
            host,
            self._on_end_of_call,
            self._look_soon,
            self._on_flushed,
            self.close,
            lambda: self._fail(CALM),
        )
        self._streams = CallStreams(sock, peer, host, sender, self._look_soon)
        self._input = SocketReader(sock, host.loop, self)

    # ------------------------------------------------------------ bytes -> frames

    def on_data(self, data: bytes) -> None:
        """Handle the frames in *data*, in several turns of the loop if they are many."""
        self._silence.heard_at = monotonic()
        self._rest = self._rest + data if self._rest else data
        self._host.slices.run(self._work)

    def on_end(self) -> None:
        """Close: the client has closed its side."""
        self.close()

    def _work(self) -> bool:
        """Take frames for a time slice; return whether some are left."""
        is_behind = False
        try:
            is_behind = not self._is_over and self._take_frames()
        except ProtocolError as error:
            self._fail(error.code)
        except Exception:  # the connection would hang
            log.exception("unexpected error while reading gRPC")
            self.close()
        self._end_if_idle()
        if self.is_closed:
            return False
        if is_behind:
            self._input.pause()
        elif not self._sender.writer.rest:
            self._input.resume()
        return is_behind

    def _take_frames(self) -> bool:
        """Take the whole frames that have arrived; return whether the time is over before.

        :raises ProtocolError: the connection has to end.
        """
        data, at, count = self._rest, 0, 0
        end, slices, take = len(data), self._host.slices, self._streams.take
        while end - at >= frames.HEAD:
            high, low, kind, flags, stream = frames.FRAME.unpack_from(data, at)
            size = high << 8 | low
            if size > MAX_CONTENT:
                raise ProtocolError(FRAME_SIZE_ERROR, "a frame is too large")
            after = at + frames.HEAD + size
            if after > end:
                break
            take(kind, flags, stream & STREAM_MASK, data[at + frames.HEAD : after])
            at, count = after, count + 1
            if (kind == HEADERS or not count & LOOK_FRAMES) and slices.is_over:
                self._keep(data[at:], count)
                return True
        self._keep(data[at:], count)
        if self._rest:
            self._look_soon()
        return False

    def _keep(self, rest: bytes, count: int) -> None:
        """Keep the *rest* after *count* frames have been taken."""
        self._rest = rest
        self._silence.frames += count

    # ------------------------------------------------------------ time

    def _look_soon(self) -> None:
        """Look at the client in a moment: it has to send, or to take, something."""
        if not self._looks_soon and not self._is_over:
            now = monotonic()
            self._looks_soon, self.expires = True, now + LOOK_S
            self._sender.writer.start_clock(now)
        if self._sender.writer.rest:
            self._input.pause()

    def _on_flushed(self) -> None:
        """Read again: the kernel has taken everything."""
        if not self._is_over:
            self._silence.pause()
            self._input.resume()
        elif not self._sender.writer.rest:
            self._input.linger(LINGER_BYTES)

    def expire(self) -> None:
        """Look at a client that has to send, or to take, something."""
        now, settings, writer = monotonic(), self._host.settings, self._sender.writer
        self._looks_soon = False
        if self._is_over:
            self.close()
        elif writer.rest and writer.is_stuck(now, settings.send_timeout, settings.body_rate):
            writer.shed()
        else:
            try:
                self._check_time(now)
            except ProtocolError as error:
                self._fail(error.code)

    def _check_time(self, now: float) -> None:
        """Look at what the client has begun, and set when to look again.

        :raises ProtocolError: the connection has to end.
        """
        sender, settings, is_midway = self._sender, self._host.settings, False
        if not sender.writer.rest:  # else nothing is read
            is_midway = self._silence.check_frame(self._rest, now)
        self._streams.check_time(now, is_midway=is_midway)
        if sender.is_stuck(now, settings.send_timeout, settings.body_rate):
            raise ProtocolError(CALM, "the client takes nothing")
        if is_midway or sender.held or sender.writer.rest or self._streams.has_to_wait:
            self._looks_soon, self.expires = True, now + LOOK_S
        else:
            self._check_silence(now)

    def _check_silence(self, now: float) -> None:
        """Close an idle connection; ask a client that says nothing during a call.

        :raises ProtocolError: it has not answered.
        """
        if self._streams.has_calls:
            if self._silence.asks(now):
                self._sender.write(PING)
            self.expires = self._silence.asks_at()
        elif self._silence.is_idle(now) and not self._is_over:
            self._streams.say_goodbye(NO_ERROR)
            self._end()
        else:
            self.expires = self._silence.idle_until()

    # ------------------------------------------------------------ the end

    def close_if_idle(self, now: float) -> None:  # noqa: ARG002
        """Take no more calls, and close when all are answered."""
        streams = self._streams
        if not (streams.is_leaving or self._is_over):
            if streams.has_calls and not self._host.connections.is_draining:
                return  # memory is short, and this one is in use
            streams.say_goodbye(NO_ERROR)
        if self._host.connections.is_draining:
            streams.end_idle()
        self._end_if_idle()

    def _on_end_of_call(self, call: Any, size: int) -> None:
        self._streams.forget(call, size)
        self._silence.heard_at = monotonic()
        self._end_if_idle()

    def _fail(self, code: int) -> None:
        """Answer no more calls, say why, and close."""
        self._streams.say_goodbye(code)
        self._streams.drop_all()
        self._end()

    def _end_if_idle(self) -> None:
        if self._streams.is_leaving and not self._streams.has_calls and not self._is_over:
            self._end()

    def _end(self) -> None:
        """Close once the client could read the last frames."""
        self._is_over = True
        self._sender.flush()
        if self.is_closed:
            return
        self.expires = monotonic() + LINGER_S
        if self._sender.writer.rest:
            self._input.pause()
        else:
            self._input.linger(LINGER_BYTES)

    def close(self) -> None:
        """Close at once; predictions in progress are cancelled."""
        if not self.is_closed:
            self.is_closed = self._is_over = True
            self._input.close()
            self._streams.close()
            self._sender.close()
            self._socket.close()
            self._host.connections.discard(self)

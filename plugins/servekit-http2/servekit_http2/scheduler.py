# SPDX-License-Identifier: Apache-2.0
"""The writing half of an HTTP/2 connection: which stream is next, and when there is room."""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from servekit.frontend.transport import SocketWriter, do_nothing

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.transport import Host, TlsSocket
    from servekit_http2.interfaces import ScheduledStream
    from servekit_http2.protocol import ServerProtocol

__all__ = ["Scheduler"]

BURST_BYTES = 65_536  #: written at once, in frames of several streams
FRAME_BYTES = 16_384  #: of one stream at a time, then another gets its turn
HELD_BYTES = 65_536  #: of control frames to a client that reads nothing

log = logging.getLogger("servekit.frontend")


class Scheduler:
    """Takes a frame of each stream in turn; all wait when the kernel takes no more."""

    __slots__ = (
        "_held",
        "_host",
        "_is_due",
        "_is_over",
        "_on_lost",
        "_on_sent",
        "_protocol",
        "_queue",
        "output",
    )

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        host: Host,
        protocol: ServerProtocol,
        on_sent: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Write the frames of *protocol* to the non-blocking *sock*.

        :param on_sent: called after a turn with the bytes of bodies that were written.
        :param on_lost: called when the connection is broken.
        """
        self._host = host
        self._protocol = protocol
        self._queue: deque[ScheduledStream] = deque()
        self._is_due = self._is_over = False
        self._held = b""  #: control frames, after what the kernel has not taken
        self._on_sent, self._on_lost = on_sent, on_lost
        self.output = SocketWriter(sock, host, self._on_flushed, on_lost)

    def wake(self, *streams: ScheduledStream) -> None:
        """Write *streams* and control frames in a later callback of the loop."""
        for stream in streams:
            if not stream.is_due:
                stream.is_due = True
                self._queue.append(stream)
        if not self._is_due:
            self._is_due = True
            self._host.loop.run_callback(self._host.slices.run, self._work)

    def _work(self) -> bool:
        """Write for a time slice; the rest is due again already."""
        self._is_due = False
        self.take()
        return False

    def take(self) -> None:
        """Write until nothing is left to send, or there is no room, or no time."""
        if self._is_over:
            return
        try:
            self._on_sent(self._write())
        except Exception:  # the connection would hang
            log.exception("unexpected error while writing HTTP/2")
            self._on_lost()

    def _write(self) -> int:
        """Write what there is room for; return the bytes of bodies in it."""
        sent = burst = 0
        while self._queue and not self.output.rest:
            if self._host.slices.is_over:
                self.wake()
                break
            stream = self._queue.popleft()
            stream.is_due = False
            if not stream.is_closed:
                written = self._write_frame(stream)
                sent, burst = sent + written, burst + written
            if burst >= BURST_BYTES:
                self.flush()
                burst = 0
        self.flush()
        return sent

    def _write_frame(self, stream: ScheduledStream) -> int:
        """Write one frame of *stream*; return the bytes of its body in it."""
        outgoing, stream_id, size = stream.outgoing, stream.stream_id, 0
        if outgoing.fields is not None:
            is_last = outgoing.is_ended and not outgoing.held
            self._protocol.send_headers(stream_id, outgoing.fields, end_stream=is_last)
            outgoing.fields = None
        else:
            room = min(FRAME_BYTES, self._protocol.local_flow_control_window(stream_id))
            if outgoing.held and room <= 0:
                return 0  # a WINDOW_UPDATE will wake it
            piece = outgoing.take(room) if outgoing.held else b""
            size, is_last = len(piece), outgoing.is_ended and not outgoing.held
            if size or is_last:
                self._protocol.send_data(stream_id, piece, end_stream=is_last)
        if is_last:
            stream.finish()
        elif outgoing.held or outgoing.is_ended:
            stream.is_due = True
            self._queue.append(stream)
        return size

    def flush(self, last: bytes = b"") -> None:
        """Write pending control frames, then *last*."""
        if self._is_over:
            return
        data = self._protocol.drain() + last
        if not data:
            return
        if self.output.rest:
            self._held += data
            if len(self._held) > HELD_BYTES:
                self._on_lost()
        else:
            self._send(data)

    def _send(self, data: bytes) -> None:
        self.output.send(data)
        if self.output.rest:
            self.output.start_clock(monotonic())

    def _on_flushed(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._send(held)
        self.wake()

    def end(self) -> None:
        """Write nothing but the data that waits for the kernel."""
        self._is_over = True
        self._queue.clear()

    def close(self) -> None:
        """Drop what is pending; the socket is the caller's to close."""
        self.end()
        self._held = b""
        self.output.close()
        self._on_sent = self._on_lost = do_nothing

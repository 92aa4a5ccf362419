# SPDX-License-Identifier: Apache-2.0
"""The writing half of an HTTP/2 connection: whose turn it is, if there is room."""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from servekit.frontend.http.writer import Sender

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.http2.exchange import Exchange
    from servekit.frontend.http2.protocol import Protocol

__all__ = ["Turns"]

BURST_BYTES = 65_536  #: written at once, in frames of several streams
FRAME_BYTES = 16_384  #: of one stream, then another gets its turn
HELD_BYTES = 65_536  #: of what the protocol itself says, to a client that reads nothing

log = logging.getLogger("servekit.frontend")


class Turns:
    """Asks each exchange in turn for a frame; what the kernel does not take holds up all."""

    __slots__ = (
        "_held",
        "_host",
        "_is_due",
        "_is_over",
        "_on_lost",
        "_on_sent",
        "_protocol",
        "_queue",
        "sender",
    )

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        host: Host,
        protocol: Protocol,
        on_sent: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Write what *protocol* says to the non-blocking *sock*.

        :param on_sent: called after a turn, with how many bytes of answers were written.
        :param on_lost: called when the client takes nothing any more.
        """
        self._host = host
        self._protocol = protocol
        self._queue: deque[Exchange] = deque()
        self._is_due = self._is_over = False
        self._held = b""  #: behind what the kernel has not taken
        self._on_sent, self._on_lost = on_sent, on_lost
        self.sender = Sender(sock, host, self._on_flushed, on_lost)

    def wake(self, *exchanges: Exchange) -> None:
        """Have *exchanges* written, and what the protocol says, once the loop gets to it."""
        for exchange in exchanges:
            if not exchange.is_due:
                exchange.is_due = True
                self._queue.append(exchange)
        if not self._is_due:
            self._is_due = True
            self._host.loop.run_callback(self._host.slices.run, self._work)

    def _work(self) -> bool:
        """Write for a moment; what is left has been told to go on."""
        self._is_due = False
        self.take()
        return False

    def take(self) -> None:
        """Write until nobody has anything to send, or there is no room, or no time."""
        if self._is_over:
            return
        try:
            self._on_sent(self._write())
        except Exception:  # else the loop would go on with a connection that hangs
            log.exception("unexpected error while writing HTTP/2")
            self._on_lost()

    def _write(self) -> int:
        """Write what there is room for; return how many bytes of answers are in it."""
        sent = burst = 0
        while self._queue and not self.sender.rest:
            if self._host.slices.is_over:
                self.wake()
                break
            exchange = self._queue.popleft()
            exchange.is_due = False
            if not exchange.is_closed:
                written = self._write_frame(exchange)
                sent, burst = sent + written, burst + written
            if burst >= BURST_BYTES:
                self.flush()
                burst = 0
        self.flush()
        return sent

    def _write_frame(self, exchange: Exchange) -> int:
        """Write one frame of *exchange*; return how many bytes of its answer are in it."""
        outgoing, stream_id, size = exchange.outgoing, exchange.stream_id, 0
        if outgoing.fields is not None:
            is_last = outgoing.is_ended and not outgoing.size
            self._protocol.send_headers(stream_id, outgoing.fields, end_stream=is_last)
            outgoing.fields = None
        else:
            room = min(FRAME_BYTES, self._protocol.local_flow_control_window(stream_id))
            if outgoing.size and room <= 0:
                return 0  # a WINDOW_UPDATE will wake it
            piece = outgoing.take(room) if outgoing.size else b""
            size, is_last = len(piece), outgoing.is_ended and not outgoing.size
            if size or is_last:
                self._protocol.send_data(stream_id, piece, end_stream=is_last)
        if is_last:
            exchange.finish()
        elif outgoing.size or outgoing.is_ended:
            exchange.is_due = True
            self._queue.append(exchange)
        return size

    def flush(self, last: bytes = b"") -> None:
        """Write what the protocol has to say, then *last*."""
        if self._is_over:
            return
        data = self._protocol.drain() + last
        if not data:
            return
        if self.sender.rest:
            self._held += data
            if len(self._held) > HELD_BYTES:
                self._on_lost()
        else:
            self._send(data)

    def _send(self, data: bytes) -> None:
        self.sender.send(data)
        if self.sender.rest:
            self.sender.start_clock(monotonic())

    def _on_flushed(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._send(held)
        self.wake()

    def end(self) -> None:
        """Say nothing more than what waits for the kernel."""
        self._is_over = True
        self._queue.clear()

    def close(self) -> None:
        """Forget what waits."""
        self.end()
        self._held = b""
        self.sender.close()

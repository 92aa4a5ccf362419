# SPDX-License-Identifier: Apache-2.0
"""The writing half of a connection: keeps what the kernel does not take at once."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.frontend.http.closed import do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.memory.pressure import Pressure

__all__ = ["JOIN_BYTES", "MAX_HELD_BYTES", "RESET", "SocketWriter"]

WRITE = 2
RESET = struct.pack("ii", 1, 0)  #: SO_LINGER: drop what is not acknowledged, and send RST
MAX_HELD_BYTES = 1 << 20  #: of a streamed response; a client that leaves more unread is cut off
JOIN_BYTES = 16_384  #: smaller bodies are copied behind their heads: cheaper than two buffers


class SocketWriter:
    """Writes buffers in order; releases the one that is lent to it when it is out."""

    __slots__ = (
        *("_loop", "_moved_at", "_on_lost", "_pressure", "_release", "_socket", "_taken"),
        *("_taken_at", "_watcher"),
        *("held", "moved", "on_flushed", "on_sent", "rest"),
    )

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        host: Host,
        on_flushed: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Write to the non-blocking *sock*.

        :param on_flushed: called when everything that had to wait has been written.
        :param on_lost: called when the connection is broken.
        """
        self._socket = sock
        self._loop = host.loop
        self._pressure: Pressure = host.pressure
        self.on_flushed = on_flushed
        self._on_lost = on_lost
        self.rest: list[memoryview] = []  #: the kernel has not taken it yet
        self._release: Callable[[], None] | None = None
        self.on_sent: Callable[[], None] | None = None  #: called once ``rest`` is sent, or dropped
        self._watcher: Any = None
        self.moved = 0  #: bytes that the kernel took later than at once
        self.held = 0  #: bytes in memory until everything is written

    def send(self, data: bytes) -> None:
        """Write *data*, or keep the part that the kernel does not take."""
        if self.rest:
            self.rest.append(memoryview(data))
            self.hold(len(data))
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._on_lost()
            return
        if sent < len(data):
            self._keep([memoryview(data)], sent)

    def send_with(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None
    ) -> None:
        """Write *head* and a *body* that is not copied; then call *release*."""
        self._release = release
        if self.rest:
            self.rest += [memoryview(head), memoryview(body)]
            self.hold(len(head) + len(body))
        else:
            try:
                sent = self._socket.sendmsg((head, body))
            except BlockingIOError:
                sent = 0
            except OSError:
                self._on_lost()
                return
            if sent < len(head) + len(body):
                self._keep([memoryview(head), memoryview(body)], sent)
        if not self.rest:
            self._release_all()

    def start_clock(self, now: float) -> None:
        """Expect the client to take what is pending from *now* on."""
        self._taken, self._taken_at = self._count_taken(), now
        self._moved_at = now

    def is_stuck(self, now: float, timeout_s: float, rate: int) -> bool:
        """Whether the client took less than *rate* bytes a second for *timeout_s*, or nothing."""
        taken = self._count_taken()
        if taken - self._taken >= max(1, int(rate * timeout_s)):
            has_moved = self._moved_at > self._taken_at  # else only the kernel sent more
            self._taken, self._taken_at = taken, self._moved_at if has_moved else now
        return now - self._taken_at >= timeout_s

    def _count_taken(self) -> int:
        """Return how many of the later bytes the client's kernel has acknowledged."""
        return self.moved - self.count_held()

    def count_held(self) -> int:
        """Return how many bytes the kernel holds until the client's acknowledges them."""
        held = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("=i", held)[0])

    def close(self) -> None:
        """Drop what is pending; the socket is the caller's to close."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
        self.rest.clear()
        self._release_all()
        self._tell_sent()
        self.on_flushed = self._on_lost = do_nothing

    # ------------------------------------------------------------ memory

    bodies = None  #: responses, not bodies of requests, are held

    @property
    def left(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return sum(map(len, self.rest))

    def hold(self, size: int) -> None:
        """Count *size* more bytes that wait for the client."""
        if not self.held:
            self._pressure.shedder.add(self)
        self.held += size
        self._pressure.hold_answers(size)

    def shed(self) -> None:
        """Close at once, and drop what the kernel still holds: the client does not read it."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._on_lost()

    def _keep(self, buffers: list[memoryview], sent: int) -> None:
        self.hold(sum(map(len, buffers)))
        self.rest = _after(buffers, sent)
        if self._watcher is None:
            self._watcher = self._loop.io(self._socket.fileno(), WRITE)
        self._watcher.start(self._on_writable)

    def _on_writable(self) -> None:
        try:
            sent = self._socket.sendmsg(self.rest)
        except BlockingIOError:
            return
        except OSError:
            self._on_lost()
            return
        self.moved += sent
        self._moved_at = monotonic()
        self.rest = _after(self.rest, sent)
        if not self.rest:
            self._watcher.stop()
            self._release_all()
            self._tell_sent()
            self.on_flushed()

    def _tell_sent(self) -> None:
        on_sent, self.on_sent = self.on_sent, None
        if on_sent is not None:
            on_sent()

    def _release_all(self) -> None:
        if self.held:
            self._pressure.shedder.discard(self)
            self._pressure.hold_answers(-self.held)
            self.held = 0
        release, self._release = self._release, None
        if release is not None:
            release()


def _after(buffers: list[memoryview], sent: int) -> list[memoryview]:
    """Return the rest of *buffers* after their first *sent* bytes."""
    left = []
    for buffer in buffers:
        if sent < len(buffer):
            left.append(buffer[sent:])
        sent = max(0, sent - len(buffer))
    return left

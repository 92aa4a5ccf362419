# SPDX-License-Identifier: Apache-2.0
"""The writing half of a connection: what the kernel does not take at once waits here."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.memory.pressure import Pressure

__all__ = ["JOIN_BYTES", "MAX_HELD_BYTES", "RESET", "Sender"]

WRITE = 2
RESET = struct.pack("ii", 1, 0)  #: SO_LINGER: what was not acknowledged is thrown away
MAX_HELD_BYTES = 1 << 20  #: of a stream: more than the client leaves unread ends it
JOIN_BYTES = 16_384  #: below it, copying a body behind its head is cheaper than a second buffer


class Sender:
    """Writes buffers in order; owns none of them, but says when one is no longer needed."""

    __slots__ = (
        "_loop",
        "_moved_at",
        "_on_lost",
        "_pressure",
        "_release",
        "_socket",
        "_taken",
        "_taken_at",
        "_watcher",
        "held",
        "moved",
        "on_flushed",
        "rest",
    )

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        host: Host,
        on_flushed: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Write to the non-blocking *sock*.

        :param on_flushed: called when all that had to wait has been written.
        :param on_lost: called when the client takes nothing any more.
        """
        self._socket = sock
        self._loop = host.loop
        self._pressure: Pressure = host.pressure
        self.on_flushed = on_flushed
        self._on_lost = on_lost
        self.rest: list[memoryview] = []  #: what the kernel has not taken yet
        self._release: Callable[[], None] | None = None
        self._watcher: Any = None
        self.moved = 0  #: bytes that the kernel took, since something has had to wait
        self.held = 0  #: bytes in memory until all of it is out

    def send(self, data: bytes) -> None:
        """Write *data*, or keep what the kernel does not take."""
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
        """Write *head* and a *body* that is not copied; call *release* when it is out, or lost."""
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
            self._let_go()

    def start_clock(self, now: float) -> None:
        """From *now* on the client is expected to take what waits."""
        self._taken, self._taken_at = self._count_taken(), now
        self._moved_at = now

    def is_stuck(self, now: float, timeout_s: float, rate: int) -> bool:
        """Whether the client took less than *rate* bytes a second for *timeout_s*, or nothing."""
        taken = self._count_taken()
        if taken - self._taken >= max(1, int(rate * timeout_s)):
            has_moved = self._moved_at > self._taken_at  # else the kernel alone sent on
            self._taken, self._taken_at = taken, self._moved_at if has_moved else now
        return now - self._taken_at >= timeout_s

    def _count_taken(self) -> int:
        """Return how much has been acknowledged; what the kernel still holds is not taken."""
        return self.moved - self.count_held()

    def count_held(self) -> int:
        """Return how many bytes the kernel holds that the client's has not acknowledged."""
        held = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("=i", held)[0])

    def close(self) -> None:
        """Forget what waits."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
        self.rest.clear()
        self._let_go()

    # ------------------------------------------------------------ memory

    bodies = None  #: what is held is an answer

    @property
    def left(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return sum(map(len, self.rest))

    def hold(self, size: int) -> None:
        """Count *size* bytes more that wait for the client."""
        if not self.held:
            self._pressure.shedder.add(self)
        self.held += size
        self._pressure.hold_answers(size)

    def shed(self) -> None:
        """Give up a client for whom we hold too much for too long."""
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
            self._let_go()
            self.on_flushed()

    def _let_go(self) -> None:
        if self.held:
            self._pressure.shedder.discard(self)
            self._pressure.hold_answers(-self.held)
            self.held = 0
        release, self._release = self._release, None
        if release is not None:
            release()


def _after(buffers: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of *buffers* when *sent* bytes of them are out."""
    left = []
    for buffer in buffers:
        if sent < len(buffer):
            left.append(buffer[sent:])
        sent = max(0, sent - len(buffer))
    return left

# SPDX-License-Identifier: Apache-2.0
"""A large request body on its way into the shared memory that workers read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.errors import QueueFull
from servekit.frontend.http.closed import do_nothing

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.ipc.batches import Slab

__all__ = ["Upload"]

READS_PER_TURN = 16  #: for one upload, then others get their turn


class Upload:
    """One body on its way into a slab, or waiting for one."""

    __slots__ = (
        *("_begun", "_limit", "_view"),
        *("bodies", "filled", "is_waiting", "on_received", "on_room", "route", "shed", "size"),
        *("slab",),
    )

    def __init__(self, route: PredictionRoute, begun: bytes, size: int, limit: int) -> None:
        """Continue a body that began with *begun*.

        :param size: bytes of the slab to begin with: the whole body, if its size is known.
        :param limit: largest size that the slab may grow to.
        """
        self.route = route
        self.bodies: BodyArena = route.bodies
        self.size = size  #: bytes of the slab that it has, or waits for
        self.slab: Slab | None = None
        self.is_waiting = False  #: for room
        self.on_room: Callable[[], None] = do_nothing  #: called when reading may continue
        #: called when more has been received from a socket, with whether the body is whole
        self.on_received: Callable[[bool], None] = do_nothing
        self.shed: Callable[[], None] = do_nothing  #: called when others need the memory more
        self._limit = limit
        self._begun = bytearray(begun)  #: bytes that are not in the slab
        self._view = memoryview(b"")  #: of the slab
        self.filled = len(begun)  #: bytes that have arrived
        slab = self.bodies.allocate(self)
        if slab is None:
            self.is_waiting = True
        else:
            self._place(slab)

    def start(self, slab: Slab) -> None:
        """Continue in *slab*: there is room now."""
        self.is_waiting = False
        self._place(slab)
        self.on_room()

    def _place(self, slab: Slab) -> None:
        self.slab, self._view = slab, self.bodies.arena.view(slab)
        self._view[: self.filled] = self._begun
        self._begun.clear()
        self.bodies.shedder.add(self)

    @property
    def held(self) -> int:
        """Bytes that are free when it ends."""
        return self.size

    @property
    def moved(self) -> int:
        """Bytes that have arrived."""
        return self.filled

    @property
    def left(self) -> int:
        """Bytes that are still to come, as far as is known."""
        return max(1, self.size - self.filled)

    def take(self, piece: bytes) -> None:
        """Add *piece*, which did not come straight from a socket.

        :raises QueueFull: there is no room for a body that has become this large.
        """
        end = self.filled + len(piece)
        if self.is_waiting:
            self._begun += piece
            self.size = max(self.size, end)
        else:
            if end > self.size:
                self._grow(min(max(2 * self.size, end), self._limit))
            self._view[self.filled : end] = piece
        self.filled = end

    def _grow(self, size: int) -> None:
        assert self.slab is not None
        slab = self.bodies.grow(self.slab, size)
        if slab is None:
            raise QueueFull
        self._view.release()
        self.size, self.slab, self._view = size, slab, self.bodies.arena.view(slab)

    def receive(self, sock: socket.socket | TlsSocket) -> bool:
        """Read from *sock*; return whether the slab is full.

        :raises EOFError: the client ended the connection early.
        :raises OSError: the connection is lost.
        """
        for _ in range(READS_PER_TURN):
            try:
                count = sock.recv_into(self._view[self.filled :])
            except BlockingIOError:
                return False
            if not count:
                raise EOFError
            self.filled += count
            if self.filled == self.size:
                return True
        return False

    def finish(self) -> bytes | Slab:
        """Return the whole body; its slab belongs to the caller."""
        if self.is_waiting:
            self.bodies.leave(self)
            return bytes(self._begun)
        assert self.slab is not None
        self.bodies.shedder.discard(self)
        self._view.release()
        return self.bodies.shrink(self.slab, self.filled)

    def abandon(self) -> None:
        """Free the memory: the body is not wanted any more."""
        if self.slab is None:
            self.bodies.leave(self)
        else:
            self.bodies.shedder.discard(self)
            self._view.release()
            self.bodies.free(self.slab)

# SPDX-License-Identifier: Apache-2.0
"""One large body from the socket straight into the shared memory that a worker reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.errors import QueueFull

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import Route
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.memory.body_arena import Bodies
    from servekit.ipc.batches import Slab
    from servekit.settings import Settings

__all__ = ["BodyClock", "Upload"]

READS_PER_TURN = 16  #: of one upload, then others get their turn


class BodyClock:
    """When a body under way is late: after a pause, or once it brings less than its rate.

    The rate holds for each ``body_timeout`` anew: what came at once buys no time later on.
    """

    __slots__ = ("_enough", "_since", "_taken", "_timeout")

    def __init__(self, settings: Settings, now: float) -> None:
        """The body begins *now* (``monotonic``), or goes on after a wait that we caused."""
        self._timeout = settings.body_timeout
        self._enough = int(settings.body_rate * settings.body_timeout)  #: bytes
        self._since, self._taken = now, 0

    def expires(self, now: float, received: int) -> float:
        """Return the moment at which it is late.

        :param received: bytes of the body that have come by *now*.
        """
        if received - self._taken >= self._enough:
            self._since, self._taken = now, received
        return self._since + self._timeout


class Upload:
    """One body on its way into a slab."""

    __slots__ = (
        "_begun",
        "_head",
        "_limit",
        "_view",
        "filled",
        "is_waiting",
        "on_room",
        "route",
        "shed",
        "size",
        "slab",
    )

    def __init__(
        self,
        route: Route,
        head: HttpRequest | None,
        begun: bytes | bytearray,
        size: int,
        limit: int = 0,
    ) -> None:
        """Continue a body of which *begun* has come already.

        :param head: the request, if it is whole but for its body.
        :param size: bytes of the body, or those to begin with if it may grow.
        :param limit: of a body whose size nobody said.
        """
        self.route = route
        self.size = size  #: of the slab that it has, or waits for
        self.slab: Slab | None = None
        self.is_waiting = False  #: for room
        self.on_room: Callable[[], None] = _nothing  #: called when reading may go on
        self.shed: Callable[[], None] = _nothing  #: called when others need the memory more
        self._limit = limit
        self._head = head
        self._begun = bytearray(begun)  #: not in the slab
        self._view = memoryview(b"")  #: of the slab
        self.filled = len(begun)  #: bytes that have come
        slab = self.bodies.allocate(self)
        if slab is None:
            self.is_waiting = True
        else:
            self._place(slab)

    def start(self, slab: Slab) -> None:
        """There is room now."""
        self.is_waiting = False
        self._place(slab)
        self.on_room()

    def _place(self, slab: Slab) -> None:
        self.slab, self._view = slab, self.bodies.arena.view(slab)
        self._view[: self.filled] = self._begun
        self._begun.clear()
        self.bodies.shedder.add(self)

    @property
    def bodies(self) -> Bodies:
        """Where it lies."""
        return self.route.bodies

    @property
    def held(self) -> int:
        """Bytes that are free when it ends."""
        return self.size

    @property
    def moved(self) -> int:
        """Bytes that have come."""
        return self.filled

    @property
    def left(self) -> int:
        """Bytes that are still to come, as far as is known."""
        return max(1, self.size - self.filled)

    def take(self, piece: bytes) -> None:
        """Add *piece*, which came by another way than from a socket of its own.

        :raises QueueFull: there is no room for a body that has become so large.
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
        """Take what has come; return whether the body is whole.

        :raises EOFError: the client ended it early.
        :raises OSError: the connection is gone.
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

    def finish(self) -> HttpRequest:
        """Return the whole request; its slab belongs to the caller."""
        assert self._head is not None
        self._head.body, self._head.route = self.lay(), self.route
        return self._head

    def lay(self) -> bytes | Slab:
        """Return the whole body; its slab belongs to the caller."""
        if self.is_waiting:
            self.bodies.leave(self)
            return bytes(self._begun)
        assert self.slab is not None
        self.bodies.shedder.discard(self)
        self._view.release()
        return self.bodies.shrink(self.slab, self.filled)

    def abandon(self) -> None:
        """Nobody will finish this body."""
        bodies = self.bodies
        if self.slab is None:
            bodies.leave(self)
        else:
            bodies.shedder.discard(self)
            self._view.release()
            bodies.free(self.slab)


def _nothing() -> None:
    """Until somebody wants to know."""

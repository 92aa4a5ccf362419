# SPDX-License-Identifier: Apache-2.0
"""Large bodies: from the socket straight into the shared memory that a worker reads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from servekit.arena import Arena

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from servekit.frontend.batcher import Batcher
    from servekit.frontend.collecting import HttpRequest
    from servekit.frontend.pipeline import Pipeline
    from servekit.frontend.tls import TlsSocket
    from servekit.messages import Slab
    from servekit.settings import Settings

__all__ = ["Bodies", "Upload", "body_expires"]

READS_PER_TURN = 16  #: of one upload, then others get their turn


def body_expires(settings: Settings, since: float, now: float, received: int) -> float:
    """Return when a body that began *since* is late: after a pause, or below its rate as a whole.

    :param received: bytes that have come by *now*.
    """
    until = now + settings.body_timeout
    if settings.body_rate:
        at_rate_s = max(settings.body_timeout, received / settings.body_rate)
        until = min(until, since + at_rate_s)
    return until


class Bodies:
    """The arena of one model's request bodies on this front-end, and who waits for room."""

    def __init__(self, size: int) -> None:
        """Reserve *size* bytes; memory is taken when a body needs it."""
        self.arena = Arena(size)
        self._waiting: deque[Upload] = deque()
        self._is_trimmed = True

    def fits(self, size: int) -> bool:
        """Whether a body of *size* bytes can ever have room."""
        return size <= self.arena.size

    def content(self, body: bytes | Slab) -> bytes | memoryview:
        """Return the bytes of *body*, wherever they lie."""
        return body if isinstance(body, bytes) else self.arena.view(body)

    def allocate(self, upload: Upload) -> Slab | None:
        """Return room for *upload*, or ``None``: its ``start`` is called when there is some."""
        slab = None if self._waiting else self.arena.allocate(upload.size)
        if slab is None:
            self._waiting.append(upload)
        else:
            self._is_trimmed = False
        return slab

    def free(self, slab: Slab) -> None:
        """Take *slab* back and give its room to who waited longest."""
        self.arena.free(slab)
        while self._waiting:
            upload = self._waiting[0]
            room = self.arena.allocate(upload.size)
            if room is None:
                return
            self._waiting.popleft()
            upload.start(room)

    def lay(self, pieces: Sequence[bytes | memoryview], large: int) -> bytes | Slab:
        """Return *pieces* as one body: in the arena, if they are *large* and there is room."""
        size = sum(map(len, pieces))
        slab = None if size < large or self._waiting else self.arena.allocate(size)
        if slab is None:
            return pieces[0] if len(pieces) == 1 and type(pieces[0]) is bytes else b"".join(pieces)
        self._is_trimmed, view, end = False, self.arena.view(slab), 0
        for piece in pieces:
            view[end : end + len(piece)] = piece
            end += len(piece)
        return slab

    def leave(self, upload: Upload) -> None:
        """*upload* waits no longer."""
        if upload in self._waiting:
            self._waiting.remove(upload)

    def trim(self) -> None:
        """Give the memory back once nobody needs it."""
        if not self._is_trimmed and self.arena.is_empty:
            self.arena.trim()
            self._is_trimmed = True


class Upload:
    """One body of a declared size on its way into a slab."""

    __slots__ = ("_begun", "_head", "_view", "batcher", "filled", "on_room", "size", "slab")

    def __init__(
        self, batcher: Batcher | Pipeline, head: HttpRequest, begun: bytes | bytearray, size: int
    ) -> None:
        """Continue a body of *size* bytes of which *begun* has come already."""
        self.batcher = batcher
        self.size = size
        self.slab: Slab | None = None
        self.on_room: Callable[[], None] = _nothing  #: called when reading may go on
        self._head = head
        self._begun = begun
        self.filled = len(begun)  #: bytes that have come
        slab = batcher.bodies.allocate(self)
        if slab is not None:
            self._place(slab)

    def start(self, slab: Slab) -> None:
        """There is room now."""
        self._place(slab)
        self.on_room()

    def _place(self, slab: Slab) -> None:
        self.slab = slab
        self._view = self.batcher.bodies.arena.view(slab)
        self._view[: self.filled] = self._begun
        self._begun = b""

    def take(self, piece: bytes) -> None:
        """Add *piece*, which came by another way than from a socket of its own."""
        end = self.filled + len(piece)
        if self.slab is None:
            self._begun = bytes(self._begun) + piece
        else:
            self._view[self.filled : end] = piece
        self.filled = end

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
        assert self.slab is not None
        self._view.release()
        self._head.body = self.slab
        return self._head

    def abandon(self) -> None:
        """Nobody will finish this body."""
        if self.slab is None:
            self.batcher.bodies.leave(self)
        else:
            self._view.release()
            self.batcher.bodies.free(self.slab)


def _nothing() -> None:
    """Until somebody wants to know."""

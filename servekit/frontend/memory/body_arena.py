# SPDX-License-Identifier: Apache-2.0
"""Large bodies: received straight into the shared memory that a worker reads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from servekit.ipc.arena import Arena

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.frontend.memory.pressure import Pressure
    from servekit.ipc.batches import Slab

__all__ = ["BodyArena"]


class WaitingBody(Protocol):
    """A body that waits for room."""

    size: int  #: bytes

    def start(self, slab: Slab) -> None:
        """Take the room that has become free."""


class BodyArena:
    """The request bodies of one model on this front-end, and those that wait for room."""

    def __init__(self, size: int, pressure: Pressure, large: int) -> None:
        """Reserve *size* bytes; memory is taken when a body needs it.

        :param pressure: counts the memory in use, and decides whether there is room.
        :param large: size in bytes from which ``lay`` puts a body here.
        """
        self.arena = Arena(size)
        self._large = large
        self.shedder = pressure.shedder
        self._pressure = pressure
        self._waiting: deque[WaitingBody] = deque()
        self._is_trimmed = True
        self._held = 0  #: bytes that are counted in the pressure
        self._is_closed = False

    def _count(self, size: int) -> None:
        if not self._is_closed:
            self._held += size
            self._pressure.bodies += size

    def close(self) -> None:
        """The model is gone, and so are the workers that read its bodies."""
        self._count(-self._held)
        self._is_closed = True
        self.arena.close()

    @property
    def is_unused(self) -> bool:
        """Whether no body is here, or waits for room."""
        return self.arena.is_empty and not self._waiting

    def fits(self, size: int) -> bool:
        """Whether a body of *size* bytes can ever have room."""
        return size <= self.arena.size

    def content(self, body: bytes | Slab) -> bytes | memoryview:
        """Return the bytes of *body*, in shared memory or not."""
        return body if isinstance(body, bytes) else self.arena.view(body)

    def allocate(self, upload: WaitingBody) -> Slab | None:
        """Return room for *upload*, or ``None``: its ``start`` is called when there is some."""
        is_free = not self._waiting and self._pressure.has_room(upload.size)
        slab = self._take(upload.size) if is_free else None
        if slab is None:
            self._waiting.append(upload)
        return slab

    def _take(self, size: int) -> Slab | None:
        if self._is_closed:
            return None
        slab = self.arena.allocate(size)
        if slab is not None:
            self._is_trimmed = False
            self._count(slab.size)
        return slab

    def grow(self, slab: Slab, size: int) -> Slab | None:
        """Return room for *size* bytes that holds what is in *slab*, and free *slab*.

        ``None`` if there is none. No body that has some room waits for more: they might all wait
        for one another.
        """
        if not self._pressure.has_room(size - slab.size):
            return None
        grown = self.arena.grow(slab, size)
        if grown is not None:
            self._count(size - slab.size)
            return grown
        moved = self._take(size)
        if moved is not None:
            self.arena.view(moved)[: slab.size] = self.arena.view(slab)
            self.free(slab)
        return moved

    def free(self, slab: Slab) -> None:
        """Free *slab*, and give its room to the body that has waited longest."""
        self.arena.free(slab)
        self._count(-slab.size)
        self.serve()

    def shrink(self, slab: Slab, size: int) -> Slab:
        """Return *slab* cut to *size* bytes, and free the rest."""
        if size == slab.size:
            return slab
        shrunk = self.arena.shrink(slab, size)
        self._count(size - slab.size)
        self.serve()
        return shrunk

    def serve(self) -> None:
        """Give room to bodies that wait, in order, as far as there is some."""
        while self._waiting and self._pressure.has_room(self._waiting[0].size):
            room = self._take(self._waiting[0].size)
            if room is None:
                return
            self._waiting.popleft().start(room)

    def relieve(self) -> None:
        """If bodies wait for room, end those that are received too slowly to make any."""
        self.serve()
        if self._waiting:
            wanted = self._waiting[0].size
            is_ours = self._pressure.has_room(wanted)  # so the arena is full
            self.shedder.shed(
                wanted,
                lambda holder: holder.bodies is self or not (is_ours or holder.bodies is None),
            )

    def lay(self, pieces: Sequence[bytes | memoryview]) -> bytes | Slab:
        """Return *pieces* as one body: in the arena, if it is large and there is room."""
        size = sum(map(len, pieces))
        slab = None if size < self._large or self._waiting else self._take(size)
        if slab is None:
            return pieces[0] if len(pieces) == 1 and type(pieces[0]) is bytes else b"".join(pieces)
        view, end = self.arena.view(slab), 0
        for piece in pieces:
            view[end : end + len(piece)] = piece
            end += len(piece)
        return slab

    def leave(self, upload: WaitingBody) -> None:
        """*upload* no longer waits."""
        if upload in self._waiting:
            self._waiting.remove(upload)

    def trim(self) -> None:
        """Give free memory back to the system: once all is free, or at once if memory is scarce."""
        if not self._is_trimmed and (self.arena.is_empty or self._pressure.is_high):
            self.arena.trim()
            self._is_trimmed = self.arena.is_empty

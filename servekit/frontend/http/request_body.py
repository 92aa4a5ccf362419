# SPDX-License-Identifier: Apache-2.0
"""The body of a request while it arrives: where it is kept, and how slow its client may be.

A body that comes in one piece needs none of this. A small one is collected in our own memory, a
large one in the shared memory that the workers of its model read (``upload.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from servekit.errors import QueueFull

if TYPE_CHECKING:
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.memory.pressure import Pressure
    from servekit.ipc.batches import Slab
    from servekit.settings import Settings

__all__ = ["BodyClock", "BodySink", "CollectedBody", "SkippedBody"]


class BodySink(Protocol):
    """Takes a body piece by piece."""

    @property
    def filled(self) -> int:
        """Bytes that have arrived."""

    @property
    def route(self) -> PredictionRoute | None:
        """The route whose shared memory the body is in."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for room in shared memory."""

    def take(self, piece: bytes) -> None:
        """Add *piece*."""

    def finish(self) -> bytes | Slab:
        """Return the whole body; a slab belongs to the caller."""

    def abandon(self) -> None:
        """Free the memory: the body is not wanted any more."""


class CollectedBody:
    """A body in our own memory, which counts as held for a client once it is large."""

    __slots__ = ("_data", "_large", "_pressure", "counted")

    route = None
    is_waiting = False

    def __init__(self, begun: bytes, large: int, pressure: Pressure) -> None:
        """Continue a body that began with *begun*; count it from *large* bytes on."""
        self._data = bytearray(begun)
        self._large, self._pressure = large, pressure
        self.counted = 0  #: bytes of it in ``pressure.bodies``

    @property
    def filled(self) -> int:
        """Bytes that have arrived."""
        return len(self._data)

    def take(self, piece: bytes) -> None:
        """Add *piece*.

        :raises QueueFull: there is no memory for a body of this size.
        """
        self._data += piece
        if len(self._data) >= self._large:
            more = len(self._data) - self.counted
            if not self._pressure.has_room(more):
                raise QueueFull
            self._pressure.bodies += more
            self.counted += more

    def finish(self) -> bytes:
        """Return the whole body."""
        self.abandon()
        return bytes(self._data)

    def abandon(self) -> None:
        """Count it no longer."""
        self._pressure.bodies -= self.counted
        self.counted = 0


class SkippedBody:
    """The body of a request that is refused: it is read, and thrown away."""

    __slots__ = ("filled",)

    route = None
    is_waiting = False

    def __init__(self) -> None:
        """Nothing has arrived yet."""
        self.filled = 0

    def take(self, piece: bytes) -> None:
        """Count *piece*."""
        self.filled += len(piece)

    def finish(self) -> bytes:
        """Return an empty body."""
        return b""

    def abandon(self) -> None:
        """Nothing is kept."""


class BodyClock:
    """When a body is too slow: after a pause, or once it brings less than the minimal rate.

    The rate applies to each period of ``body_timeout`` separately: bytes that came at once buy no
    time later.
    """

    __slots__ = ("_enough", "_since", "_taken", "_timeout")

    def __init__(self, settings: Settings, now: float) -> None:
        """The body begins *now* (``monotonic``), or continues after a wait that we caused."""
        self._timeout = settings.body_timeout
        self._enough = max(1, int(settings.body_rate * settings.body_timeout))  #: bytes
        self._since, self._taken = now, 0

    def expires(self, now: float, received: int) -> float:
        """Return the moment at which the client is too slow.

        :param received: bytes of the body that have arrived by *now*.
        """
        if received - self._taken >= self._enough:
            self._since, self._taken = now, received
        return self._since + self._timeout

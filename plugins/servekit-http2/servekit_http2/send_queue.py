# SPDX-License-Identifier: Apache-2.0
"""The response of one stream, which waits for its turn, or for the client to make room."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from servekit.frontend.transport import MAX_HELD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.transport import Pressure
    from servekit_http2.hpack_encoder import Fields

__all__ = ["SendQueue"]

NOTHING = -1  #: the client has taken everything since it was last looked at


class SendQueue:
    """One response: its fields, and the pieces of its body, which are not copied."""

    __slots__ = (
        "_looked_at",
        "_on_more",
        "_pieces",
        "_pressure",
        "_release",
        "_seen",
        "fields",
        "held",
        "is_ended",
        "moved",
        "shed",
    )

    def __init__(
        self, on_more: Callable[[], None], pressure: Pressure, shed: Callable[[], None]
    ) -> None:
        """Call *on_more* when there is more to send.

        :param pressure: counts the pending bytes.
        :param shed: called when others need the memory more.
        """
        self._on_more = on_more
        self._pressure, self.shed = pressure, shed
        self.fields: Fields | None = None  #: to be sent first, if they have not been
        self._pieces: deque[memoryview] = deque()
        self._release: Callable[[], None] | None = None
        self.held = 0  #: pending bytes
        self.moved = 0  #: bytes handed to the connection
        self.is_ended = False  #: nothing will be added
        self._seen, self._looked_at = 0, 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to send."""
        return self.fields is not None or self.held > 0

    def begin(self, fields: Fields) -> None:
        """Send *fields* first."""
        self.fields = fields
        self._on_more()

    def write(self, piece: bytes | memoryview, release: Callable[[], None] | None = None) -> bool:
        """Add *piece*; return whether the client keeps up.

        :param release: called when everything is sent, or dropped.
        """
        self._release = self._release or release
        if len(piece):
            if not self.held:
                self._pressure.shedder.add(self)
            self._pieces.append(memoryview(piece))
            self._hold(len(piece))
            self._on_more()
        return self.held <= MAX_HELD_BYTES

    def end(self) -> None:
        """Add the end: nothing more will come."""
        self.is_ended = True
        self._on_more()

    def take(self, limit: int) -> memoryview:
        """Return the next piece, at most *limit* bytes."""
        piece = self._pieces.popleft()
        if len(piece) > limit:
            self._pieces.appendleft(piece[limit:])
            piece = piece[:limit]
        self._hold(-len(piece))
        self.moved += len(piece)
        if not self.held:
            self._pressure.shedder.discard(self)
            self._seen = NOTHING  # the client keeps up: a later wait begins from zero
        return piece

    def start_clock(self, now: float) -> None:
        """Expect the client to take what is pending from *now* on."""
        self._seen, self._looked_at = self.moved, now

    def is_stuck(self, now: float, timeout_s: float, rate: int) -> bool:
        """Whether the client took less than *rate* bytes a second for *timeout_s*, or nothing."""
        if self._seen == NOTHING or self.moved - self._seen >= max(1, int(rate * timeout_s)):
            self.start_clock(now)
        return now - self._looked_at >= timeout_s

    def _hold(self, size: int) -> None:
        self.held += size
        self._pressure.hold_answers(size)

    bodies = None  #: responses, not bodies of requests, are held

    @property
    def left(self) -> int:
        """Bytes that are still to be sent."""
        return self.held

    def close(self) -> None:
        """Drop what is pending, and the callbacks."""
        self._pressure.shedder.discard(self)
        self._hold(-self.held)
        del self._on_more, self.shed
        self._pieces.clear()
        self.fields = None
        release, self._release = self._release, None
        if release is not None:
            release()

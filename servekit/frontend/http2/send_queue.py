# SPDX-License-Identifier: Apache-2.0
"""What is to be sent on one stream and waits for its turn, or for the client to have room."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from servekit.frontend.http.writer import MAX_HELD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.http2.hpack_encoder import Fields
    from servekit.frontend.memory.pressure import Pressure

__all__ = ["Outgoing"]

NOTHING = -1  #: has been seen of what waits


class Outgoing:
    """One answer: its fields, and the pieces of its body, which are not copied."""

    __slots__ = (
        "_looked_at",
        "_on_more",
        "_pieces",
        "_pressure",
        "_release",
        "_seen",
        "fields",
        "is_ended",
        "sent",
        "shed",
        "size",
    )

    def __init__(
        self, on_more: Callable[[], None], pressure: Pressure, shed: Callable[[], None]
    ) -> None:
        """Call *on_more* when there is more to do.

        :param pressure: is told what waits.
        :param shed: called when others need the memory more.
        """
        self._on_more = on_more
        self._pressure, self.shed = pressure, shed
        self.fields: Fields | None = None  #: to be sent first
        self._pieces: deque[memoryview] = deque()
        self._release: Callable[[], None] | None = None
        self.size = 0  #: bytes that wait
        self.sent = 0  #: bytes that the client had room for
        self.is_ended = False  #: nothing comes after what waits
        self._seen, self._looked_at = 0, 0.0

    @property
    def is_waiting(self) -> bool:
        """There is something to send."""
        return self.fields is not None or self.size > 0

    def begin(self, fields: Fields) -> None:
        """Send *fields* before all else."""
        self.fields = fields
        self._on_more()

    def write(self, piece: bytes | memoryview, release: Callable[[], None] | None = None) -> bool:
        """Add *piece*; return whether the client keeps up.

        :param release: called when all is sent, or nobody will read it.
        """
        self._release = self._release or release
        if len(piece):
            if not self.size:
                self._pressure.shedder.add(self)
            self._pieces.append(memoryview(piece))
            self._hold(len(piece))
            self._on_more()
        return self.size <= MAX_HELD_BYTES

    def end(self) -> None:
        """Nothing comes after what waits."""
        self.is_ended = True
        self._on_more()

    def take(self, limit: int) -> memoryview:
        """Return the next piece, *limit* bytes at most."""
        piece = self._pieces.popleft()
        if len(piece) > limit:
            self._pieces.appendleft(piece[limit:])
            piece = piece[:limit]
        self._hold(-len(piece))
        self.sent += len(piece)
        if not self.size:
            self._pressure.shedder.discard(self)
            self._seen = NOTHING  # the client keeps up: who waits now waits anew
        return piece

    def start_clock(self, now: float) -> None:
        """From *now* on the client is expected to take what waits."""
        self._seen, self._looked_at = self.sent, now

    def is_stuck(self, now: float, timeout_s: float, rate: int) -> bool:
        """Whether the client took less than *rate* bytes a second for *timeout_s*, or nothing."""
        if self._seen == NOTHING or self.sent - self._seen >= max(1, int(rate * timeout_s)):
            self.start_clock(now)
        return now - self._looked_at >= timeout_s

    def _hold(self, size: int) -> None:
        self.size += size
        self._pressure.hold_answers(size)

    bodies = None  #: what is held is an answer

    @property
    def held(self) -> int:
        """Bytes that are free when it ends."""
        return self.size

    @property
    def moved(self) -> int:
        """Bytes that have gone."""
        return self.sent

    @property
    def left(self) -> int:
        """Bytes that are still to go."""
        return self.size

    def close(self) -> None:
        """Forget what waits, and whom to call."""
        self._pressure.shedder.discard(self)
        self._hold(-self.size)
        del self._on_more, self.shed
        self._pieces.clear()
        self.fields = None
        release, self._release = self._release, None
        if release is not None:
            release()

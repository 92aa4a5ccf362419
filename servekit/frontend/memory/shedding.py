# SPDX-License-Identifier: Apache-2.0
"""Ends what slow clients hold memory for, while others wait for that memory."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.memory.body_arena import Bodies

__all__ = ["Holder", "Shedder"]

LOOK_S = 1.0  #: the pace of a client is what it did in so long


class Holder(Protocol):
    """A body that comes in, or an answer that goes out, in memory of ours."""

    @property
    def bodies(self) -> Bodies | None:
        """Where it lies, if it is a body."""

    @property
    def held(self) -> int:
        """Bytes that are free when it ends."""

    @property
    def moved(self) -> int:
        """Bytes that have come or gone so far."""

    @property
    def left(self) -> int:
        """Bytes that are still to come or to go."""

    def shed(self) -> None:
        """End it: its client is too slow."""


class Pace(Struct):
    """What is known of one holder."""

    since: float  #: ``monotonic``
    moved: int  #: by then
    left_s: float = 0.0  #: that it will take at the pace of the last look


class Shedder:
    """Looks at the pace of all holders once a second, and ends the slowest when asked to.

    A holder is slow if, at its pace, it would take longer than those who wait will wait. It
    has been looked at for a second before it can be that.
    """

    def __init__(self, patience_s: float) -> None:
        """Those who wait for memory do so for *patience_s*."""
        self._patience_s = patience_s
        self._paces: dict[Holder, Pace] = {}
        self._looked_at = 0.0

    def add(self, holder: Holder) -> None:
        """Look at *holder* from now on."""
        self._paces[holder] = Pace(monotonic(), holder.moved)

    def discard(self, holder: Holder) -> None:
        """*holder* is over."""
        self._paces.pop(holder, None)

    def look(self, now: float) -> None:
        """Take the pace of each holder, if a second is over."""
        if now < self._looked_at + LOOK_S:
            return
        self._looked_at = now
        for holder, pace in self._paces.items():
            elapsed_s = now - pace.since
            if elapsed_s >= LOOK_S:
                rate = (holder.moved - pace.moved) / elapsed_s
                pace.left_s = holder.left / rate if rate else float("inf")
                pace.since, pace.moved = now, holder.moved

    def shed(self, wanted: int, is_of_use: Callable[[Holder], bool]) -> None:
        """End the slowest holders that are of use until *wanted* bytes are free, if there are."""
        slow = [
            (pace.left_s, holder.held, id(holder), holder)
            for holder, pace in self._paces.items()
            if pace.left_s > self._patience_s and is_of_use(holder)
        ]
        for _, held, _, holder in sorted(slow, reverse=True):
            if wanted <= 0:
                return
            wanted -= held
            holder.shed()

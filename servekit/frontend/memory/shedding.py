# SPDX-License-Identifier: Apache-2.0
"""Ends the requests of slow clients when others wait for the memory that they hold."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Holder", "Shedder"]

PACE_S = 1.0  #: the pace of a client is measured over this time


class Holder(Protocol):
    """A request that is received, or a response that is sent, in memory of ours."""

    @property
    def bodies(self) -> object:
        """The ``BodyArena`` or the ``Pressure`` that it lies in; ``None`` if it is a response."""

    @property
    def held(self) -> int:
        """Bytes that its end frees."""

    @property
    def moved(self) -> int:
        """Bytes that were received or sent so far."""

    @property
    def left(self) -> int:
        """Bytes that have yet to be received or sent."""

    def shed(self) -> None:
        """End it: its client is too slow."""


class Pace(Struct):
    """How fast one holder gets on."""

    since: float  #: ``monotonic``
    moved: int  #: by then
    left_s: float = 0.0  #: until it is over, at the pace of the last look


class Shedder:
    """Measures the pace of all holders once a second, and ends the slowest when asked to.

    A holder is slow if it would take longer, at its pace, than others wait for memory. That is
    known only after it has been measured for a second.
    """

    def __init__(self, patience_s: float) -> None:
        """Clients wait for memory for at most *patience_s*."""
        self._patience_s = patience_s
        self._paces: dict[Holder, Pace] = {}
        self._looked_at = 0.0

    def add(self, holder: Holder) -> None:
        """Measure *holder* from now on."""
        self._paces[holder] = Pace(monotonic(), holder.moved)

    def discard(self, holder: Holder) -> None:
        """Measure *holder* no more: it is over."""
        self._paces.pop(holder, None)

    def look(self, now: float) -> None:
        """Measure the pace of each holder, if the last time was a second ago."""
        if now < self._looked_at + PACE_S:
            return
        self._looked_at = now
        for holder, pace in self._paces.items():
            elapsed_s = now - pace.since
            if elapsed_s >= PACE_S:
                rate = (holder.moved - pace.moved) / elapsed_s
                pace.left_s = holder.left / rate if rate else float("inf")
                pace.since, pace.moved = now, holder.moved

    def shed(self, wanted: int, is_of_use: Callable[[Holder], bool]) -> None:
        """End the slowest holders that are of use, until *wanted* bytes are free."""
        if wanted <= 0:
            return
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

# SPDX-License-Identifier: Apache-2.0
"""How many connections each front-end has, in memory that all of one server share."""

from __future__ import annotations

import mmap

__all__ = ["Shares"]

FRONT_ENDS = 256  #: places; who takes one that is in use shares it
FRESH_S = 1.0  #: what was noted longer ago is of one that has gone
SLACK, PART = 1, 8  #: a lead of so many connections, or of this part of the other's, does not count


class Shares:
    """Made before the first fork; each front-end notes its own, and compares it with the others."""

    def __init__(self) -> None:
        """Know of nobody."""
        self._moments = memoryview(mmap.mmap(-1, 2 * 8 * FRONT_ENDS)).cast("d")
        self._place = 0

    def sit_down(self, number: int) -> None:
        """Be the front-end of this *number*, from the fork on."""
        self._place = number % FRONT_ENDS

    def note(self, count: int, now: float) -> None:
        """Have *count* connections at *now* (``monotonic``)."""
        self._moments[FRONT_ENDS + self._place] = count
        self._moments[self._place] = now

    def leave(self) -> None:
        """Take no connection any more."""
        self._moments[self._place] = 0.0

    def is_ahead(self, count: int, now: float) -> bool:
        """Whether another one that is there has clearly less than *count*."""
        seen, since = self._moments, now - FRESH_S
        others = [
            seen[FRONT_ENDS + place]
            for place in range(FRONT_ENDS)
            if seen[place] > since and place != self._place
        ]
        least = min(others, default=count)
        return count > least + SLACK + least // PART

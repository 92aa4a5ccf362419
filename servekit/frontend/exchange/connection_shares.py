# SPDX-License-Identifier: Apache-2.0
"""The number of connections of each front-end, in memory that they share."""

from __future__ import annotations

import mmap

__all__ = ["ConnectionShares"]

FRONT_ENDS = 256  #: slots; two front-ends may use the same one
FRESH_S = 1.0  #: older numbers are ignored: their front-end has exited
SLACK, PART = 1, 8  #: a lead of one connection plus an eighth of the others' is tolerated


class ConnectionShares:
    """Made before the first fork; each front-end notes its number, and compares it with others."""

    def __init__(self) -> None:
        """Begin without any front-end."""
        self._memory = memoryview(mmap.mmap(-1, 2 * 8 * FRONT_ENDS)).cast("d")
        self._slot = 0

    def join(self, number: int) -> None:
        """Note that this is the front-end *number*. Called after the fork."""
        self._slot = number % FRONT_ENDS

    def note(self, count: int) -> None:
        """Note that this front-end has *count* connections."""
        self._memory[FRONT_ENDS + self._slot] = count

    def renew(self, now: float) -> None:
        """Note that this front-end still accepts at *now* (``monotonic``)."""
        self._memory[self._slot] = now

    def leave(self) -> None:
        """Let the others ignore this front-end: it accepts no more connections."""
        self._memory[self._slot] = 0.0

    def is_ahead(self, count: int, now: float) -> bool:
        """Whether another front-end has clearly fewer connections than *count*."""
        seen, since = self._memory, now - FRESH_S
        others = [
            seen[FRONT_ENDS + slot]
            for slot in range(FRONT_ENDS)
            if seen[slot] > since and slot != self._slot
        ]
        least = min(others, default=count)
        return count > least + SLACK + least // PART

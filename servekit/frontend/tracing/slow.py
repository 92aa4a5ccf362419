# SPDX-License-Identifier: Apache-2.0
"""The slowest requests of one model."""

from __future__ import annotations

from heapq import heappush, heapreplace
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.frontend.tracing.trace import FinishedTrace

__all__ = ["MAX_KEPT", "PERIOD_S", "SlowRequests"]

MAX_KEPT = 8  #: requests that are compared with, and that are sent at once
DURATION_OF = itemgetter(0)
PERIOD_S = 10.0  #: after which everything is forgotten


class SlowRequests:
    """Keeps at most ``MAX_KEPT`` of them, each slower than the others of the period."""

    __slots__ = ("__weakref__", "_kept", "_slowest", "_until", "limit_s")

    def __init__(self) -> None:
        """Begin without any."""
        self.limit_s = 0.0  #: a request that takes longer is one of them
        self._slowest: list[float] = []  #: durations, a heap
        self._until = 0.0  #: ``monotonic``: when the period ends
        self._kept: list[tuple[float, FinishedTrace]] = []

    def add(self, duration_s: float, trace: FinishedTrace) -> None:
        """Keep *trace* if it took longer than ``limit_s``."""
        if duration_s < self.limit_s:
            return
        if len(self._slowest) < MAX_KEPT:
            heappush(self._slowest, duration_s)
        else:
            heapreplace(self._slowest, duration_s)
        if len(self._slowest) == MAX_KEPT:
            self.limit_s = self._slowest[0]
        self._kept.append((duration_s, trace))
        if len(self._kept) > MAX_KEPT:
            self._kept.remove(min(self._kept, key=DURATION_OF))

    def take(self) -> list[FinishedTrace]:
        """Return those kept since the last call."""
        kept, self._kept = self._kept, []
        return [trace for _, trace in kept]

    def renew(self, now: float) -> None:
        """Begin with the next period if this one is over *now*."""
        if now >= self._until:
            self._until = now + PERIOD_S
            self._slowest.clear()
            self.limit_s = 0.0

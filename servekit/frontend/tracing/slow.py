# SPDX-License-Identifier: Apache-2.0
"""The slowest requests of one model."""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.extension.events import RequestTraced

__all__ = ["MOST", "PERIOD_S", "SlowRequests"]

MOST = 8  #: requests that are compared with, and that are sent at once
PERIOD_S = 10.0  #: after which everything is forgotten


class SlowRequests:
    """Keeps at most ``MOST`` of them, each slower than the others of the period."""

    __slots__ = ("__weakref__", "_kept", "_slowest", "_until", "limit_s")

    def __init__(self) -> None:
        """Know none."""
        self.limit_s = 0.0  #: a request that takes longer is one of them
        self._slowest: list[float] = []  #: durations, a heap
        self._until = 0.0  #: ``monotonic``: when the period ends
        self._kept: list[RequestTraced] = []

    def add(self, traced: RequestTraced) -> None:
        """Keep *traced* if it is slower than ``limit_s``."""
        if traced.duration_s < self.limit_s:
            return
        if len(self._slowest) < MOST:
            heappush(self._slowest, traced.duration_s)
        else:
            heapreplace(self._slowest, traced.duration_s)
        if len(self._slowest) == MOST:
            self.limit_s = self._slowest[0]
        self._kept.append(traced)
        if len(self._kept) > MOST:
            self._kept.remove(min(self._kept, key=lambda each: each.duration_s))

    def take(self) -> list[RequestTraced]:
        """Return those kept since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def renew(self, now: float) -> None:
        """Begin with the next period if this one is over *now*."""
        if now >= self._until:
            self._until = now + PERIOD_S
            self._slowest.clear()
            self.limit_s = 0.0

# SPDX-License-Identifier: Apache-2.0
"""Limits work that clients can pile up to a slice of each turn of the event loop."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.exchange.event_loop import EventLoop, Watcher

    #: works until ``is_over``; returns whether there is more to do
    Work = Callable[[], bool]

__all__ = ["TimeSlices"]

SLICE_S = 0.002  #: for all such work together; then everything else gets a turn of the loop


class TimeSlices:
    """Shared by the connections of one front-end, however many of them have work to do."""

    def __init__(self, loop: EventLoop) -> None:
        """Begin the first slice."""
        self._left_s = SLICE_S
        self._until = 0.0  #: ``monotonic``: when the current work has to stop
        self._waiting: deque[Work] = deque()
        # 0 s: due in the next turn of the loop, after the events that the kernel reports
        self._timer: Watcher = loop.timer(0.0)
        self._is_due = False

    @property
    def is_over(self) -> bool:
        """Whether the current work has to stop."""
        return monotonic() >= self._until

    def charge(self, seconds: float) -> None:
        """Count work that follows later in this turn of the loop."""
        self._until -= seconds
        self._left_s -= seconds

    def run(self, work: Work) -> None:
        """Do *work* now, or in a later turn if this slice is used up."""
        if self._waiting or self._left_s <= 0:
            self.defer(work)
        else:
            self._do(work)

    def _do(self, work: Work) -> None:
        began = monotonic()
        self._until = began + self._left_s
        has_more = work()
        self._left_s -= monotonic() - began
        if has_more:
            self.defer(work)

    def defer(self, work: Work) -> None:
        """Do *work* in a later turn, in the hub's greenlet."""
        self._waiting.append(work)
        if not self._is_due:
            self._is_due = True
            self._timer.start(self._begin)

    def _begin(self) -> None:
        """Begin a slice: call each pending work once, as long as there is time."""
        self._left_s = SLICE_S
        self._timer.stop()
        self._is_due = False
        for _ in range(len(self._waiting)):
            if self._left_s <= 0:
                break
            self._do(self._waiting.popleft())
        if self._waiting and not self._is_due:
            self._is_due = True
            self._timer.start(self._begin)

# SPDX-License-Identifier: Apache-2.0
"""Gives the loop back after a moment of work that clients can heap up, and goes on in its turn."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    #: works until ``is_over``; returns whether there is more to do
    Work = Callable[[], bool]

__all__ = ["Slices"]

SLICE_S = 0.002  #: of all such work together, then everybody else gets a turn of the loop


class Slices:
    """Shared by the connections of one front-end, however many of them have something to do."""

    def __init__(self, loop: Any) -> None:
        """Let a first slice begin."""
        self._left_s = SLICE_S
        self._until = 0.0  #: ``monotonic``: of the work that is being done
        self._waiting: deque[Work] = deque()
        # of no length: it is due in the next turn of the loop, behind what the kernel has to say
        self._timer: Any = loop.timer(0.0)
        self._is_due = False

    @property
    def is_over(self) -> bool:
        """Whoever works has to stop."""
        return monotonic() >= self._until

    def charge(self, seconds: float) -> None:
        """Count work that begins now and is done in this turn of the loop, but later."""
        self._until -= seconds
        self._left_s -= seconds

    def run(self, work: Work) -> None:
        """Do *work* now, or in its turn if this slice is used up."""
        if self._waiting or self._left_s <= 0:
            self._wait(work)
        else:
            self._do(work)

    def _do(self, work: Work) -> None:
        began = monotonic()
        self._until = began + self._left_s
        has_more = work()
        self._left_s -= monotonic() - began
        if has_more:
            self._wait(work)

    def _wait(self, work: Work) -> None:
        self._waiting.append(work)
        if not self._is_due:
            self._is_due = True
            self._timer.start(self._begin)

    def _begin(self) -> None:
        """Begin a slice: each that waits works once, as long as there is time."""
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

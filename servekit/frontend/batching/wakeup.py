# SPDX-License-Identifier: Apache-2.0
"""Calls a function once, soon or after a delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.exchange.event_loop import EventLoop, Watcher

__all__ = ["Wakeup"]


class Wakeup:
    """Decides when, not whether: the function is called once for all who have asked."""

    __slots__ = ("_call", "_loop", "_timer", "is_due")

    def __init__(self, loop: EventLoop, call: Callable[[], None]) -> None:
        """Call *call* when asked to."""
        self._loop, self._call = loop, call
        self._timer: Watcher | None = None
        self.is_due = False  #: it is called at the end of this turn of the loop

    def soon(self) -> None:
        """Call after all sockets that are ready in this turn of the loop have been read."""
        if not self.is_due:
            self.is_due = True
            self._loop.run_callback(self._wake)

    def after(self, delay_s: float) -> None:
        """Call after *delay_s*, in place of any other delay."""
        if self._timer is not None:
            self._timer.close()
        self._timer = self._loop.timer(delay_s)
        self._timer.start(self._call)

    def _wake(self) -> None:
        self.is_due = False
        self._call()

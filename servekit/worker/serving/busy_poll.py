# SPDX-License-Identifier: Apache-2.0
"""How a worker waits for its sockets: asleep, or awake if the next message may come soon."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from servekit.ipc.busy_times import OTHERS_S

if TYPE_CHECKING:
    import select

__all__ = ["BusyPoll"]


class BusyPoll:
    """Waits until a socket is ready.

    After a wait that was shorter than *busy_poll_s* the worker stays awake for as long, and looks
    at its sockets again and again, unless another process wants the core.
    """

    def __init__(self, poll: select.poll | select.epoll, busy_poll_s: float) -> None:
        """Wait for the sockets that are registered with *poll*.

        :param busy_poll_s: seconds that a wait stays awake before it sleeps; 0 sleeps at once.
        """
        self._poll, self._longest_s = poll, busy_poll_s
        self._is_brisk = False  #: the last wait was short

    def wait(self) -> list[tuple[int, int]]:
        """Return the descriptors that are ready, with their events. Blocks until there are some."""
        poll, began = self._poll.poll, monotonic()
        if self._is_brisk and (found := self._look(began)):
            return found
        found = poll()
        self._is_brisk = monotonic() - began < self._longest_s
        return found

    def _look(self, began: float) -> list[tuple[int, int]]:
        """Return what is ready soon after *began*; nothing if the core is wanted."""
        poll, looked = self._poll.poll, began
        while not (found := poll(0)):
            os.sched_yield()
            now = monotonic()
            if now - looked > OTHERS_S or now - began > self._longest_s:
                break
            looked = now
        return found

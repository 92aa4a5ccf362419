# SPDX-License-Identifier: Apache-2.0
"""Limits how many workers load at once: one for each core, and only while memory lasts."""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

__all__ = ["BASE_BYTES", "LoadQueue", "QueuedLoad"]

OTHERS = "waiting for other models to load"
BASE_BYTES = 32 * 2**20  #: memory of a worker before it has loaded its model


@dataclass(frozen=True, slots=True)
class QueuedLoad:
    """A worker that will boot."""

    owner: Hashable
    needs_bytes: int  #: an estimate
    begin: Callable[[], object]
    waits: Callable[[str], object]  #: called with the reason, once, if it cannot begin at once


class LoadQueue:
    """Starts loads in the order in which they came, each when there is room for it.

    Loads that swap or compete for cores are slower than one after another. The memory that a load
    needs is an estimate, and it counts in full until the load ends. A load waits only while
    others run: if none does, the next begins however little memory is left.
    """

    def __init__(self, most: int, available_bytes: Callable[[], int | None]) -> None:
        """Let *most* run at once; *available_bytes* returns ``None`` where nobody knows."""
        self._most = most
        self._available_bytes = available_bytes
        self._running: dict[Hashable, int] = {}
        self._waiting: deque[QueuedLoad] = deque()
        self._is_beginning = False
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing loads, and nothing waits to."""
        return not self._running and not self._waiting

    def close(self) -> None:
        """Begin nothing from now on."""
        self._is_closed = True
        self._waiting.clear()

    def ask(self, load: QueuedLoad, *, is_urgent: bool = False) -> None:
        """Begin *load* now or later.

        :param is_urgent: it replaces a worker that served; it goes before all others.
        """
        if self._is_closed:
            return
        if is_urgent:
            self._waiting.appendleft(load)
        else:
            self._waiting.append(load)
        self._begin_next()
        if load in self._waiting:
            load.waits(self._obstacle(load) or OTHERS)

    def done(self, owner: Hashable) -> None:
        """Forget the load of *owner*: it has succeeded, failed or been cancelled."""
        self._running.pop(owner, None)
        self._waiting = deque(load for load in self._waiting if load.owner != owner)
        self._begin_next()

    def _begin_next(self) -> None:
        if self._is_beginning:  # a load failed as it began; the loop below continues
            return
        self._is_beginning = True
        try:
            while self._waiting and not self._obstacle(self._waiting[0]):
                load = self._waiting.popleft()
                self._running[load.owner] = load.needs_bytes
                load.begin()
        finally:
            self._is_beginning = False

    def _obstacle(self, load: QueuedLoad) -> str:
        """Return why *load* cannot begin, or ""."""
        if not self._running:
            return ""
        if len(self._running) >= self._most:
            return OTHERS
        available = self._available_bytes()
        spoken_for = sum(self._running.values())
        if available is None or load.needs_bytes + spoken_for <= available:
            return ""
        return "waiting for memory while other models load"

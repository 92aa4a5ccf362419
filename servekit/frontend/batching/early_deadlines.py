# SPDX-License-Identifier: Apache-2.0
"""Tasks in a queue whose deadline is before that of some that arrived earlier."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from servekit.frontend.batching.task import INFINITY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit.frontend.batching.task import Task

__all__ = ["EarlyDeadlines"]


class EarlyDeadlines:
    """By deadline. Tasks stay here after they have left the queue, until ``trim``."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Task]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, task: Task) -> None:
        """Note *task*, which has been queued."""
        heapq.heappush(self._entries, (task.deadline, id(task), task))

    @property
    def first(self) -> float:
        """The first deadline (``monotonic``)."""
        return self._entries[0][0] if self._entries else INFINITY

    def due(self, now: float) -> Iterator[Task]:
        """Take out the tasks past their deadline; yield those that still wait."""
        while self._entries and self._entries[0][0] <= now:
            task = heapq.heappop(self._entries)[2]
            if not task.is_done and not task.is_sent:
                yield task

    def trim(self, most: int) -> None:
        """Forget tasks that are done if there are more than *most*."""
        if len(self._entries) > most:
            self._entries = [entry for entry in self._entries if not entry[2].is_done]
            heapq.heapify(self._entries)

    def clear(self) -> None:
        """Forget all tasks."""
        self._entries.clear()

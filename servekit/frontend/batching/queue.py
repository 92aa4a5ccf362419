# SPDX-License-Identifier: Apache-2.0
"""The tasks of one model that wait for a worker, and the memory that their bodies take."""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded, ServekitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit.frontend.batching.task import Task
    from servekit.frontend.metrics.counters import ModelMetrics

__all__ = ["MAX_BATCH_BYTES", "QueueMemory", "TaskQueue"]

#: a batch stops growing here, so that one frame stays far below its limit
MAX_BATCH_BYTES = 64 * 2**20
KEPT = 64  #: tasks that are done stay in a queue until there are more of them


class QueueMemory:
    """The memory that waiting bodies may still take in a front-end; shared by its models."""

    __slots__ = ("free",)

    def __init__(self, limit: int) -> None:
        """Let bodies of *limit* bytes wait."""
        self.free = limit


class TaskQueue:
    """In order of arrival. A task that is done while it waits keeps its place, but not counted."""

    __slots__ = ("_bytes", "_done", "_early", "_memory", "_metrics", "_tasks", "capacity")

    def __init__(self, metrics: ModelMetrics, memory: QueueMemory) -> None:
        """Count the tasks that are dropped in *metrics*."""
        self._metrics = metrics
        self._memory = memory
        self._tasks: deque[Task] = deque()
        self._done = 0
        self._bytes = 0
        self.capacity = 0  #: tasks that may wait
        #: tasks whose deadline is before that of some that arrived earlier, by deadline
        self._early: list[tuple[float, int, Task]] = []

    def __len__(self) -> int:
        return len(self._tasks) - self._done

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks that wait."""
        return (task for task in self._tasks if not task.is_done)

    def has_room(self, size: int) -> bool:
        """Whether a task with a body of *size* bytes may wait.

        A model takes no more of the memory than it leaves to the others. So one model alone takes
        half of it, two take a third each, and there is always some for the next. A model without
        waiting tasks has room for one body of any size.
        """
        return len(self._tasks) - self._done < self.capacity and (
            self._bytes + size <= self._memory.free or not self._bytes
        )

    def put(self, task: Task) -> None:
        """Queue *task* behind the others."""
        self._tasks.append(task)
        self._bytes += task.body_bytes
        self._memory.free -= task.body_bytes

    def put_back(self, tasks: list[Task]) -> None:
        """Queue *tasks*, which were taken before, ahead of the others."""
        self._tasks.extendleft(reversed(tasks))
        self._hold(sum(task.body_bytes for task in tasks))
        for task in tasks:
            task.is_sent = False

    def note_early(self, task: Task) -> None:
        """Note that *task* may expire before tasks that arrived earlier."""
        heapq.heappush(self._early, (task.deadline, id(task), task))

    def take(self, now: float, room: int) -> list[Task]:
        """Return up to *room* tasks in order, or one that goes alone; none if all are done."""
        tasks, in_frame, held = self._tasks, 0, 0
        batch: list[Task] = []
        while tasks and len(batch) < room:
            task = tasks.popleft()
            if task.is_done:
                self._done -= 1
                continue
            size = task.body_bytes
            if task.deadline <= now:
                held += size
                self._expire(task)
                continue
            in_frame += size if type(task.item.body) is bytes else 0
            if batch and (in_frame > MAX_BATCH_BYTES or task.was_lost):
                tasks.appendleft(task)
                break
            held += size
            task.is_sent = True
            batch.append(task)
            if task.was_lost:
                break
        self._hold(-held)
        return batch

    def first(self) -> Task | None:
        """Return the task that waits longest."""
        while self._tasks and self._tasks[0].is_done:
            self._tasks.popleft()
            self._done -= 1
        return self._tasks[0] if self._tasks else None

    @property
    def first_deadline(self) -> float:
        """The first deadline of those noted as early."""
        return self._early[0][0] if self._early else float("inf")

    def expire(self, now: float) -> None:
        """Answer 504 to tasks past their deadline."""
        early = self._early
        while early and early[0][0] <= now:
            task = heapq.heappop(early)[2]
            if not task.is_done and not task.is_sent:
                self.drop(task, "expired", DeadlineExceeded())
        while (oldest := self.first()) is not None and oldest.deadline <= now:
            self._tasks.popleft()
            self._hold(-oldest.body_bytes)
            self._expire(oldest)
        if len(early) > 2 * len(self) + KEPT:
            self._early = [entry for entry in early if not entry[2].is_done]
            heapq.heapify(self._early)

    def drop(self, task: Task, reason: str, error: ServekitError | None) -> None:
        """Take *task* out, and answer it with *error*; ``None`` if its client has disconnected."""
        self._metrics.count_drop(reason)
        self._hold(-task.body_bytes)
        self._done += 1
        if error is not None:
            task.fail(error)
        else:
            task.is_done = True
            task.drop_body()
        task.item.body = b""  # it need not wait for its place to come up
        if self._done > len(self) + KEPT:
            self._tasks = deque(self)
            self._done = 0

    def fail(self, error: ServekitError) -> None:
        """Answer all tasks with *error*."""
        tasks, self._tasks, self._done = list(self), deque(), 0
        self._early.clear()
        self._hold(-self._bytes)
        for task in tasks:
            task.fail(error)

    def _expire(self, task: Task) -> None:
        self._metrics.count_drop("expired")
        task.fail(DeadlineExceeded())

    def _hold(self, size: int) -> None:
        self._bytes += size
        self._memory.free -= size

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

    __slots__ = (
        *("_bytes", "_early", "_memory", "_metrics", "_tasks"),
        *("capacity", "usual_s", "waiting"),
    )

    def __init__(self, metrics: ModelMetrics, memory: QueueMemory) -> None:
        """Count the tasks that are dropped in *metrics*."""
        self._metrics = metrics
        self._memory = memory
        self._tasks: deque[Task] = deque()
        self._bytes = 0
        self.waiting = 0  #: tasks that are not done
        self.capacity = 0  #: tasks that may wait
        self.usual_s = 0.0  #: the time of most tasks until their deadline
        #: tasks whose deadline is before that of some that arrived earlier, by deadline
        self._early: list[tuple[float, int, Task]] = []

    def __len__(self) -> int:
        return self.waiting

    def __iter__(self) -> Iterator[Task]:
        """Yield the tasks that wait."""
        return (task for task in self._tasks if not task.is_done)

    def has_room(self, size: int) -> bool:
        """Whether a task with a body of *size* bytes may wait.

        A model takes no more of the memory than it leaves to the others. So one model alone takes
        half of it, two take a third each, and there is always some for the next. A model without
        waiting tasks has room for one body of any size.
        """
        return self.waiting < self.capacity and (
            self._bytes + size <= self._memory.free or not self._bytes
        )

    def offer(self, task: Task) -> bool:
        """Queue *task* behind the others, and return whether it may wait; see ``has_room``."""
        if self.has_room(task.body_bytes):
            self.put(task)
            return True
        return False

    def put(self, task: Task) -> None:
        """Queue *task* behind the others, whether there is room or not."""
        size = task.body_bytes
        self._tasks.append(task)
        self.waiting += 1
        self._bytes += size
        self._memory.free -= size
        if task.deadline < task.arrived + self.usual_s:
            heapq.heappush(self._early, (task.deadline, id(task), task))

    def put_back(self, tasks: list[Task]) -> None:
        """Queue *tasks*, which were taken before, ahead of the others."""
        self._tasks.extendleft(reversed(tasks))
        self.waiting += len(tasks)
        self._hold(sum(task.body_bytes for task in tasks))
        for task in tasks:
            task.is_sent = False

    def take(self, now: float, room: int) -> list[Task]:
        """Return up to *room* tasks in order, or one that goes alone; none if all are done."""
        tasks, in_frame, held = self._tasks, 0, 0
        batch: list[Task] = []
        while tasks and room:
            task = tasks.popleft()
            if task.is_done:
                continue
            if task.deadline <= now:
                self._remove(task)
                self._expire(task)
                continue
            size = task.body_bytes
            if type(task.item.body) is bytes:
                in_frame += size
            if (task.was_lost or in_frame > MAX_BATCH_BYTES) and batch:
                tasks.appendleft(task)
                break
            held += size
            task.is_sent = True
            batch.append(task)
            room -= 1
            if task.was_lost:
                break
        self.waiting -= len(batch)
        self._bytes -= held
        self._memory.free += held
        return batch

    def first(self) -> Task | None:
        """Return the task that waits longest."""
        while self._tasks and self._tasks[0].is_done:
            self._tasks.popleft()
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
            self._remove(oldest)
            self._expire(oldest)
        if len(early) > 2 * self.waiting + KEPT:
            self._early = [entry for entry in early if not entry[2].is_done]
            heapq.heapify(self._early)

    def drop(self, task: Task, reason: str, error: ServekitError | None) -> None:
        """Take *task* out, and answer it with *error*; ``None`` if its client has disconnected."""
        self._metrics.count_drop(reason)
        self._remove(task)
        if error is not None:
            task.fail(error)
        else:
            task.is_done = True
            task.drop_body()
        task.item.body = b""  # it need not wait for its place to come up
        if len(self._tasks) > 2 * self.waiting + KEPT:
            self._tasks = deque(self)

    def take_all(self) -> list[Task]:
        """Return all tasks that wait, in order, for another queue."""
        tasks, self._tasks = list(self), deque()
        self._early.clear()
        self.waiting = 0
        self._hold(-self._bytes)
        return tasks

    def fail(self, error: ServekitError) -> None:
        """Answer all tasks with *error*."""
        for task in self.take_all():
            task.fail(error)

    def _expire(self, task: Task) -> None:
        self._metrics.count_drop("expired")
        task.fail(DeadlineExceeded())

    def _remove(self, task: Task) -> None:
        self.waiting -= 1
        self._hold(-task.body_bytes)

    def _hold(self, size: int) -> None:
        self._bytes += size
        self._memory.free -= size

# SPDX-License-Identifier: Apache-2.0
"""The tasks of one model that wait for a worker, and how they leave in batches.

A worker that becomes idle takes what has queued, at once; a task that arrives while a worker is
idle goes at once. So a batch is what arrived while the worker worked, and batching costs no
waiting. Where the last batch had several members, "at once" is after all sockets that were ready
together have been read: one batch of eight costs less than one of one and another of seven. Several
idle workers share what has queued, unless there is a delay: who sets one prefers full batches.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded, ServekitError
from servekit.frontend.batching.early_deadlines import EarlyDeadlines
from servekit.frontend.batching.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit.frontend.batching.batch_costs import BatchCosts
    from servekit.frontend.batching.task import Task, TaskTaker
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.memory.pressure import Pressure, QueueMemory
    from servekit.frontend.metrics.counters import ModelMetrics

__all__ = ["MAX_BATCH_BYTES", "BatchFeed", "TaskQueue"]

#: a batch stops growing here, so that one frame stays far below its limit
MAX_BATCH_BYTES = 64 * 2**20
KEPT = 64  #: tasks that are done stay in a queue until there are more of them


class TaskQueue:
    """In order of arrival. A task that is done while it waits keeps its place, but not counted."""

    __slots__ = (
        *("_bytes", "_memory", "_metrics", "_tasks"),
        *("capacity", "early", "usual_s", "waiting"),
    )

    def __init__(self, metrics: ModelMetrics, memory: QueueMemory) -> None:
        """Count the tasks that are dropped in *metrics*."""
        self._metrics, self._memory = metrics, memory
        self._tasks: deque[Task] = deque()
        self._bytes = 0
        self.waiting = 0  #: tasks that are not done
        self.capacity = 0  #: tasks that may wait
        self.usual_s = 0.0  #: the time of most tasks until their deadline
        self.early = EarlyDeadlines()  #: those before the usual one

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

    @property
    def has_spare_room(self) -> bool:
        """Whether less than half of the room is taken, in tasks and in bytes."""
        return 2 * self.waiting < self.capacity and 4 * self._bytes <= self._memory.free

    def put(self, task: Task) -> None:
        """Queue *task* behind the others, whether there is room or not."""
        size = task.body_bytes
        self._tasks.append(task)
        self.waiting += 1
        self._bytes += size
        self._memory.free -= size
        if task.deadline < task.arrived + self.usual_s:
            self.early.add(task)

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
        late: list[Task] = []
        while tasks and room:
            task = tasks.popleft()
            if task.is_done:
                continue
            if task.deadline <= now:
                late.append(task)
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
        for task in late:  # now that the counts are right: an answer may queue the next task
            self.drop(task, "expired", DeadlineExceeded())
        return batch

    def first(self) -> Task | None:
        """Return the task that waits longest."""
        while self._tasks and self._tasks[0].is_done:
            self._tasks.popleft()
        return self._tasks[0] if self._tasks else None

    def expire(self, now: float) -> None:
        """Answer 504 to tasks past their deadline."""
        for task in self.early.due(now):
            self.drop(task, "expired", DeadlineExceeded())
        while (oldest := self.first()) is not None and oldest.deadline <= now:
            self.drop(oldest, "expired", DeadlineExceeded())
        self.early.trim(2 * self.waiting + KEPT)

    def drop(self, task: Task, reason: str, error: ServekitError | None) -> None:
        """Take *task* out, and answer it with *error*; ``None`` if its client has disconnected.

        Nothing is done to a task that has left: the answer to another one may have sent it, or
        found its client disconnected.
        """
        if task.is_done or task.is_sent:
            return
        self._metrics.count_drop(reason)
        self._remove(task)
        if error is not None:
            task.fail(error)
        else:
            task.is_done = True
            task.drop_body()
        task.item.body = b""  # it need not wait for its place to come up
        if len(self._tasks) > 2 * self.waiting + KEPT:
            waiting = list(self)
            self._tasks.clear()
            self._tasks.extend(waiting)

    def take_all(self) -> list[Task]:
        """Return all tasks that wait, in order, for another queue."""
        tasks = list(self)
        self._tasks.clear()
        self.early.clear()
        self.waiting = 0
        self._hold(-self._bytes)
        return tasks

    def fail(self, error: ServekitError) -> None:
        """Answer all tasks with *error*."""
        for task in self.take_all():
            task.fail(error)

    def _remove(self, task: Task) -> None:
        self.waiting -= 1
        self._hold(-task.body_bytes)

    def _hold(self, size: int) -> None:
        self._bytes += size
        self._memory.free -= size


class BatchFeed:
    """Sends the tasks of a queue in batches to workers that can take them."""

    __slots__ = (
        *("_had_company", "_idle", "_note_left", "_pressure", "_queue", "_wakeup"),
        *("costs", "max_batch_size", "max_delay_s"),
    )

    def __init__(
        self, queue: TaskQueue, loop: EventLoop, pressure: Pressure, metrics: ModelMetrics
    ) -> None:
        """Send the tasks of *queue*, and count in *metrics* why the batches leave."""
        self._queue, self._pressure = queue, pressure
        self._note_left = metrics.left.append
        self._wakeup = Wakeup(loop, self.dispatch)
        self._idle: list[TaskTaker] = []  #: workers that can take tasks; the last one is next
        self._had_company = False  #: the last batch had more than one member
        self.max_batch_size = 1  #: less while a version with smaller ones leaves
        self.max_delay_s = 0.0  #: a task waits no longer than this for others
        self.costs: BatchCosts | None = None  #: of inputs, if they have any

    def offer(self, task: Task) -> bool:
        """``put`` *task* if there is room for it; return whether there is."""
        if self._queue.has_room(task.body_bytes):
            self.put(task)
            return True
        return False

    def put(self, task: Task) -> None:
        """Queue *task*; it leaves at once if a worker is idle."""
        self._queue.put(task)
        if self._idle and not self._wakeup.is_due:
            if self._had_company:
                self._wakeup.soon()
            else:
                self.dispatch()

    def dispatch(self) -> None:
        """Send tasks that wait to workers that can take them."""
        idle, queue, costs, now = self._idle, self._queue, self.costs, monotonic()
        if self._pressure.is_stalled and self._pressure.is_waiting(now):
            return  # until the next sweep
        while idle and queue.waiting:
            if self.max_delay_s and self._is_worth_waiting(now):
                return
            room = self.max_batch_size
            if len(idle) > 1 and not self.max_delay_s:
                room = min(room, -(-queue.waiting // len(idle)))
            batch = costs.take(queue, now, room) if costs else queue.take(now, room)
            if not batch or not idle:  # the answer to a task that was late has sent others
                queue.put_back(batch)
                return
            self._had_company = len(batch) > 1
            rest = idle.pop().send(batch, now)
            if rest:
                queue.put_back(rest)
            if len(rest) == len(batch):  # a model that is asleep
                continue
            if rest or len(batch) == self.max_batch_size:
                self._note_left("full")
            elif queue.waiting or self.max_delay_s or batch[0].was_lost:
                self._note_left(self._why(batch, room, now))
            else:
                self._note_left("worker_idle")

    def _why(self, batch: list[Task], room: int, now: float) -> str:
        """Return why *batch*, which is not full, was sent *now*: one of ``LEFT``."""
        following = self._queue.first()
        if batch[0].was_lost or (following is not None and following.was_lost):
            return "retried"
        if following is not None:
            if len(batch) == room:
                return "shared"
            return "too_large" if self.costs is None else "cost"
        if batch[0].arrived + self.max_delay_s <= now:
            return "delay_over"
        return "deadline" if self.costs is None else "cost"

    def _is_worth_waiting(self, now: float) -> bool:
        """Whether a partial batch is held back: not past the deadline of a member."""
        oldest = self._queue.first()
        if oldest is None or oldest.was_lost or self._queue.waiting >= self.max_batch_size:
            return False
        if self.costs is not None and self.costs.fills(self._queue):
            return False
        until = min(oldest.arrived + self.max_delay_s, oldest.deadline, self._queue.early.first)
        if until > now:
            self._wakeup.after(until - now)
        return until > now

    def add(self, taker: TaskTaker) -> None:
        """*taker* can take tasks: send it those that wait."""
        self._idle.append(taker)
        if self._queue.waiting:
            self.dispatch()

    def add_last(self, taker: TaskTaker) -> None:
        """*taker* can take more tasks after it was sent some: the others come first."""
        self._idle.insert(0, taker)

    def remove(self, taker: TaskTaker) -> None:
        """*taker* can take no tasks until ``add``."""
        if taker in self._idle:
            self._idle.remove(taker)

# SPDX-License-Identifier: Apache-2.0
"""The tasks of one model on this front-end: waiting in the queue, or inside a replica.

A replica is idle or has one batch. When it becomes idle it takes what has queued, at
once; when a task arrives and a replica is idle, it goes at once. So batches are what
came while the replica worked, and batching costs no waiting. Where the last batch had
company, "at once" is after the sockets that were readable together have all been read:
one batch of eight costs less than one of one and another of seven.
"""

from __future__ import annotations

import heapq
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import DeadlineExceeded, NotReady, ServekitError
from servekit.frontend.answering import fail_task
from servekit.frontend.bodies import Bodies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.frontend.metrics import ModelMetrics
    from servekit.frontend.replica import Replica
    from servekit.frontend.task import Task
    from servekit.messages import ModelRow
    from servekit.settings import Settings

__all__ = ["MAX_BATCH_BYTES", "Batcher"]

#: a batch stops growing here, so that one frame stays far below its limit
MAX_BATCH_BYTES = 64 * 2**20
SILENCE_S = 10.0  #: an idle worker that says nothing for so long hangs


class Batcher:
    """Queues the tasks of one model and makes batches of them."""

    def __init__(self, row: ModelRow, metrics: ModelMetrics, loop: Any, settings: Settings) -> None:
        """Serve the model of *row*."""
        self.metrics = metrics
        self.bodies = Bodies(settings.arena)
        self._loop = loop
        self._front_ends = settings.front_ends
        self.replicas: dict[int, Replica] = {}
        self.leaving: list[Replica] = []  #: of an older version; they serve until others can
        self.idle: list[Replica] = []
        self.is_open = False  #: there is, or will be in a moment, a replica that answers
        self._queue: deque[Task] = deque()
        self._done_in_queue = 0
        self._had_company = False  #: the last batch had more than one member
        self._is_gathering = False  #: it leaves at the end of the loop's turn
        self._early: list[tuple[float, int, Task]] = []
        self._timer: Any = None
        self.update(row)

    def update(self, row: ModelRow) -> None:
        """Take over what the routing table says now."""
        self.row = row
        self.capacity = row.capacity
        if not self.leaving:
            self.max_batch_size = row.max_batch_size
        self.max_batch_size = min(self.max_batch_size, row.max_batch_size)
        self.max_delay_s = row.max_delay_s
        self.predict_timeout_s = row.predict_timeout_s
        # a worker may first have to finish a batch of each other front-end
        self.hang_after_s = row.predict_timeout_s * self._front_ends
        self.silence_s = SILENCE_S + row.predict_timeout_s * (self._front_ends - 1)
        was_ready = row.interface is not None
        self.is_open = any(
            replica.state == "serving" or (was_ready and replica.state in ("starting", "backoff"))
            for replica in row.replicas
        )
        if not self.is_open:
            self.fail_waiting(NotReady())

    def part_with(self, indexes: Iterable[int]) -> None:
        """Keep replicas that are to leave only as long as no other can answer."""
        self.leaving += [self.replicas.pop(index) for index in indexes]

    def hand_over(self) -> None:
        """Let those that are to leave go, if another replica answers."""
        if self.leaving and any(replica.is_live for replica in self.replicas.values()):
            for replica in self.leaving:
                replica.retire()
            self.leaving = [replica for replica in self.leaving if replica.batch is not None]
            self.max_batch_size = self.row.max_batch_size

    @property
    def every_replica(self) -> list[Replica]:
        """Those that the table names and those that are to leave."""
        return [*self.replicas.values(), *self.leaving]

    @property
    def waiting(self) -> int:
        """Number of tasks that still wait."""
        return len(self._queue) - self._done_in_queue

    def put(self, task: Task) -> None:
        """Queue *task*; it leaves at once if a replica is idle."""
        self._queue.append(task)
        if task.deadline < task.arrived + self.predict_timeout_s:
            heapq.heappush(self._early, (task.deadline, id(task), task))
        if self.idle and not self._is_gathering:
            if self._had_company:
                self._is_gathering = True
                self._loop.run_callback(self._dispatch_gathered)
            else:
                self.dispatch()

    def _dispatch_gathered(self) -> None:
        self._is_gathering = False
        self.dispatch()

    def dispatch(self) -> None:
        """Give idle replicas what waits."""
        now = monotonic()
        while self.idle and self._queue:
            if self.max_delay_s and self._is_worth_waiting(now):
                return
            batch = self._take(now)
            if batch:
                self._had_company = len(batch) > 1
                self.idle.pop().send(batch, now)

    def cancel(self, task: Task) -> None:
        """Drop a task whose client has gone, if no worker has it yet."""
        if task.is_done or task.is_sent:
            return
        task.is_done = True
        task.drop_body()
        self._forget_one("cancelled")

    def expire(self, now: float) -> None:
        """Answer 504 to every task past its deadline, waiting or in flight."""
        while self._early and self._early[0][0] <= now:
            self._expire_waiting(heapq.heappop(self._early)[2])
        queue = self._queue
        while queue and (queue[0].is_done or queue[0].deadline <= now):  # in order of arrival
            task = queue.popleft()
            if task.is_done:
                self._done_in_queue -= 1
            else:
                self.metrics.count_drop("expired")
                fail_task(task, DeadlineExceeded())
        for replica in self.every_replica:
            replica.expire(now)
        self.hand_over()
        self.metrics.set_waiting(self.waiting)
        self.bodies.trim()

    def close(self) -> None:
        """The model is gone from the table."""
        self.is_open = False
        self.fail_waiting(NotReady())
        for replica in self.every_replica:
            replica.close()
        self.bodies.arena.close()

    def fail_all(self, error: ServekitError) -> None:
        """Answer *error* to all that waits and to all that a worker has."""
        self.fail_waiting(error)
        for replica in self.every_replica:
            for task in replica.batch or ():
                fail_task(task, error)

    def fail_waiting(self, error: ServekitError) -> None:
        """Answer *error* to all that waits."""
        queue, self._queue, self._done_in_queue = self._queue, deque(), 0
        self._early.clear()
        for task in queue:
            fail_task(task, error)

    def _take(self, now: float) -> list[Task]:
        """Return the next idle replica's share in arrival order; none if all had gone."""
        queue, size = self._queue, 0
        share = max(1, -(-self.waiting // len(self.idle)))
        room = min(self.max_batch_size, share)
        batch: list[Task] = []
        while queue and len(batch) < room:
            task = queue.popleft()
            if task.is_done:
                self._done_in_queue -= 1
            elif task.deadline <= now:
                self.metrics.count_drop("expired")
                fail_task(task, DeadlineExceeded())
            else:
                body = task.item[0]
                size += len(body) if type(body) is bytes else 0  # others are not in the frame
                if size > MAX_BATCH_BYTES and batch:
                    queue.appendleft(task)
                    break
                task.is_sent = True
                batch.append(task)
        return batch

    def _is_worth_waiting(self, now: float) -> bool:
        """Hold a partial batch back for ``max_delay_s``, never past a member's deadline."""
        while self._queue and self._queue[0].is_done:
            self._queue.popleft()
            self._done_in_queue -= 1
        if not self._queue or self.waiting >= self.max_batch_size:
            return False
        oldest = self._queue[0]
        until = min(oldest.arrived + self.max_delay_s, oldest.deadline)
        if self._early:
            until = min(until, self._early[0][0])
        if until <= now:
            return False
        if self._timer is not None:
            self._timer.close()
        self._timer = self._loop.timer(until - now)
        self._timer.start(self.dispatch)
        return True

    def _expire_waiting(self, task: Task) -> None:
        if not task.is_done and not task.is_sent:
            fail_task(task, DeadlineExceeded())
            self._forget_one("expired")

    def _forget_one(self, reason: str) -> None:
        """Account for a task that is done while it stands in the queue."""
        self.metrics.count_drop(reason)
        self._done_in_queue += 1
        if self._done_in_queue > self.capacity:
            self._queue = deque(task for task in self._queue if not task.is_done)
            self._done_in_queue = 0

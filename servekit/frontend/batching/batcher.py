# SPDX-License-Identifier: Apache-2.0
"""The tasks of one model on this front-end: waiting in the queue, or inside a replica.

A replica that becomes idle takes what has queued, at once; a task that arrives while a replica is
idle goes at once. So a batch is what arrived while the replica worked, and batching costs no
waiting. Where the last batch had several members, "at once" is after all sockets that were ready
together have been read: one batch of eight costs less than one of one and another of seven.
"""

from __future__ import annotations

import contextlib
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import NotReady, ServekitError
from servekit.frontend.batching.admission import Admission
from servekit.frontend.batching.liveness import time_limits
from servekit.frontend.batching.queue import TaskQueue
from servekit.frontend.batching.replica import ReplicaProxy
from servekit.frontend.batching.replica_pool import ReplicaPool
from servekit.frontend.batching.retry import settle
from servekit.frontend.batching.wakeup import Wakeup
from servekit.frontend.memory.body_arena import BodyArena

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.frontend.batching.environment import BatchingEnvironment, TaskTaker
    from servekit.frontend.batching.task import Task
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.ipc.table import ModelRow

__all__ = ["Batcher"]


class Batcher:
    """Queues the tasks of one model, or of one stage, and makes batches of them."""

    def __init__(
        self,
        row: ModelRow,
        metrics: ModelMetrics,
        colocated: Mapping[str, ModelMetrics],
        environment: BatchingEnvironment,
    ) -> None:
        """Serve the model of *row*.

        :param colocated: counters of the other stages that its workers serve, by name.
        """
        self.metrics, self.colocated = metrics, colocated
        self.pressure = environment.pressure
        self.bodies = BodyArena(
            environment.arena_bytes, environment.pressure, environment.large_body_bytes
        )
        self.queue = TaskQueue(metrics, environment.queue_memory)
        self.pool = ReplicaPool(lambda: ReplicaProxy(self, environment))
        self._idle: list[TaskTaker] = []  #: workers that can take tasks; the last one is next
        self._front_ends = environment.front_ends
        self.admission = Admission(self.queue)
        self._wakeup = Wakeup(environment.loop, self.dispatch)
        self._max_batch_size = row.max_batch_size  #: less while a version with smaller ones leaves
        self._had_company = False  #: the last batch had more than one member
        self._is_draining = False  #: nothing is tried again
        self._users = 0  #: runs through pipelines of which it is a part
        self._successor: Batcher | None = None  #: of the version that replaces this one
        self.update(row)

    def update(self, row: ModelRow) -> None:
        """Take over what the routing table says now."""
        self.row = row
        self.limits = time_limits(row.predict_timeout_s, self._front_ends)
        self.queue.capacity, self.queue.usual_s = row.capacity, row.predict_timeout_s
        self.pool.part(row.replicas)
        most = self._max_batch_size if self.pool.leaving else row.max_batch_size
        self._max_batch_size = min(most, row.max_batch_size)
        self.admission.update(row)
        if not self.admission.is_open:
            self.queue.fail(self.admission.not_ready())
        self.pool.follow(row.replicas)
        self.on_greeted()

    # ------------------------------------------------------------ in

    def admit(self, task: Task) -> None:
        """Queue *task*, or refuse it."""
        admission = self.admission
        if admission.is_open and not admission.poison.sizes and self.queue.offer(task):
            self._on_queued()
        elif not self._successor and (refusal := admission.refusal(task.body_bytes)) is not None:
            task.fail(refusal)
        else:
            self.put(task)

    def put(self, task: Task) -> None:
        """Queue *task*, whose request has been admitted, if anything can answer it."""
        if self._successor is not None:
            self._successor.adopt(task)
        elif (refusal := self.admission.refusal_of_content(task)) is not None:
            task.fail(refusal)
        else:
            self.queue.put(task)
            self._on_queued()

    def adopt(self, task: Task) -> None:
        """Queue *task* of the version that this one replaces."""
        task.move_to(self)
        self.put(task)

    def hold(self, users: int) -> None:
        """Count *users* more, until they end, that may queue tasks: it must not be closed."""
        self._users += users

    # ------------------------------------------------------------ out in batches

    def _on_queued(self) -> None:
        """Send the task that was queued at once if a worker is idle."""
        if self._idle and not self._wakeup.is_due:
            if self._had_company:
                self._wakeup.soon()
            else:
                self.dispatch()

    def dispatch(self) -> None:
        """Send tasks that wait to idle replicas."""
        now = monotonic()
        if self.pressure.is_stalled and self.pressure.is_waiting(now):
            return  # until the next sweep
        idle, queue = self._idle, self.queue
        while idle and queue.waiting:
            if self.row.max_delay_s and self._is_worth_waiting(now):
                return
            room = self._max_batch_size
            if len(idle) > 1:
                room = min(room, -(-queue.waiting // len(idle)))
            batch = queue.take(now, room)
            if batch:
                self._had_company = len(batch) > 1
                if rest := idle.pop().send(batch, now):
                    queue.put_back(rest)

    def _is_worth_waiting(self, now: float) -> bool:
        """Whether a partial batch is held back: not past the deadline of a member."""
        oldest = self.queue.first()
        if oldest is None or oldest.was_lost or self.queue.waiting >= self._max_batch_size:
            return False
        late = oldest.arrived + self.row.max_delay_s
        until = min(late, oldest.deadline, self.queue.first_deadline)
        if until > now:
            self._wakeup.after(until - now)
        return until > now

    # ------------------------------------------------------------ what replicas say

    def on_room(self, taker: TaskTaker) -> None:
        """*taker* can take tasks."""
        self._idle.append(taker)
        if self.queue.waiting:
            self.dispatch()

    def on_room_left(self, taker: TaskTaker) -> None:
        """*taker* can take tasks even after it was sent some: the others come first."""
        self._idle.insert(0, taker)

    def on_busy(self, taker: TaskTaker) -> None:
        """*taker* can take no tasks."""
        with contextlib.suppress(ValueError):
            self._idle.remove(taker)

    def on_greeted(self) -> None:
        """Let the replicas of an older version go, if another one answers."""
        if self.pool.hand_over():
            self._max_batch_size = self.row.max_batch_size

    def on_lost(self, batch: list[Task]) -> list[Task]:
        """The worker that had *batch* is lost; return the tasks that are tried again."""
        admission = self.admission
        may_retry = self.row.may_retry and admission.is_open and not self._is_draining
        return settle(batch, self.queue, admission.poison, may_retry=may_retry)

    # ------------------------------------------------------------ without an answer of a worker

    def cancel(self, task: Task) -> None:
        """Drop *task*, whose client has disconnected, or tell the worker that has it."""
        if task.is_done:
            return
        if not task.is_sent:
            self.queue.drop(task, "cancelled", None)
            return
        task.is_cancelled = True
        for replica in self.pool:
            replica.cancel(task)

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline, and note how things are."""
        self.queue.expire(now)
        for replica in self.pool:
            replica.sweep(now)
        self.on_greeted()
        waiting, running = self.queue.waiting, self.pool.running
        self.admission.throughput.sample(now, self.metrics.answered, is_idle=not waiting + running)
        self.metrics.set_tasks(waiting, running)
        self.admission.poison.forget(now)
        self.bodies.relieve()
        self.bodies.trim()
        if self.pressure.is_high:
            self.pool.trim()
        if self._idle and self.queue.waiting:
            self.dispatch()

    def leave(self, successor: Batcher | None) -> bool:
        """Return whether there is nothing more to do for this version, which is being replaced.

        Its workers answer the tasks that wait. If no worker is left, *successor* gets them, and so
        it does tasks whose bodies arrive later; without a successor they fail.
        """
        waiting = () if self.pool.has_channel else self.queue.take_all()
        for task in waiting:
            if successor is not None:
                successor.adopt(task)
            else:
                task.fail(self.admission.not_ready())
        if self._users or self.queue.waiting or self.pool.running:
            return False
        self._successor, self.admission.is_open = successor, False
        self.pool.disband()
        return self.bodies.is_unused

    def drain(self) -> None:
        """Try nothing again from now on: the front-end shuts down."""
        self._is_draining = True

    def close(self) -> None:
        """Fail the tasks that wait: no worker will answer them."""
        self.admission.is_open = False
        self.queue.fail(NotReady())
        for replica in self.pool:
            replica.close()
        self.metrics.set_tasks(0, 0)
        self.bodies.close()

    def fail_all(self, error: ServekitError) -> None:
        """Answer all tasks with *error*, those that workers have too."""
        self.queue.fail(error)
        for replica in self.pool:
            for task in replica.tasks:
                task.fail(error)

# SPDX-License-Identifier: Apache-2.0
"""The tasks of one model on this front-end: waiting in the queue, or inside a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.errors import NoRoomForModel, NotReady, ServekitError
from servekit.frontend.batching.admission import Admission
from servekit.frontend.batching.batch_costs import costs_of
from servekit.frontend.batching.liveness import time_limits
from servekit.frontend.batching.queue import BatchFeed, TaskQueue
from servekit.frontend.batching.replica import ReplicaProxy
from servekit.frontend.batching.replica_pool import ReplicaPool
from servekit.frontend.batching.retry import queue_again, settle
from servekit.frontend.batching.tracer import Tracer
from servekit.frontend.memory.body_arena import BodyArena
from servekit.ipc.control import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from servekit.frontend.batching.environment import BatchingEnvironment
    from servekit.frontend.batching.task import Task
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.ipc.table import ModelRow

__all__ = ["Batcher"]


class Waker:
    """Takes the place of a worker in the feed of a model that is asleep: asks for workers once."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Call *wake* when there is a task."""
        self._wake = wake

    def send(self, tasks: list[Task], _now: float) -> list[Task]:
        """Return all of *tasks*, which wait for a worker."""
        self._wake()
        return tasks


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
        self.feed = BatchFeed(self.queue, environment.loop, environment.pressure, metrics)
        self.feed.max_batch_size = row.max_batch_size
        self.pool = ReplicaPool(lambda: ReplicaProxy(self, environment))
        traces = environment.traces
        self.tracer = Tracer(traces, row.name) if traces is not None else None
        self._environment = environment
        self.admission = Admission(self.queue)
        self._waker = Waker(lambda: environment.report(Wanted(self.row.name, self.row.version)))
        self._is_draining = False  #: nothing is tried again
        self._users = 0  #: runs through pipelines of which it is a part
        self._front_ends = environment.front_ends
        self.update(row)

    def update(self, row: ModelRow) -> None:
        """Take over what the routing table says now."""
        self.row = row
        self.limits = time_limits(row.predict_timeout_s, self._front_ends)
        is_cold = row.is_asleep or row.is_waking
        self.patience_s = self._environment.wake_timeout_s if is_cold else 0.0
        self.timeout_s = row.predict_timeout_s + self.patience_s
        self.queue.capacity, self.queue.usual_s = row.capacity, self.timeout_s
        self.pool.part(row.replicas)
        self.feed.max_delay_s = row.max_delay_s
        most = self.feed.max_batch_size if self.pool.leaving else row.max_batch_size
        self.feed.max_batch_size = min(most, row.max_batch_size)
        self.feed.costs = costs_of(row, self.feed.costs)
        if row.refusal:
            self.queue.fail(NoRoomForModel())
        self.admission.update(row)
        if not self.admission.is_open:
            self.queue.fail(self.admission.not_ready())
        self.pool.follow(row.replicas)
        self.on_greeted()
        self.feed.remove(self._waker)
        if row.is_asleep:
            self.feed.add(self._waker)

    def share(self, front_ends: int) -> None:
        """Take into account that so many front-ends are there, which share the workers."""
        self._front_ends = max(self._environment.front_ends, front_ends)
        self.limits = time_limits(self.row.predict_timeout_s, self._front_ends)

    # ------------------------------------------------------------ in

    def admit(self, task: Task) -> None:
        """Queue *task*, or refuse it."""
        admission = self.admission
        if admission.is_open and not admission.poison.sizes and self.feed.offer(task):
            return
        if (refusal := admission.refusal(task.body_bytes)) is not None:
            task.fail(refusal)
        else:
            self.put(task)

    def put(self, task: Task) -> None:
        """Queue *task*, whose request has been admitted, if anything can answer it."""
        if (refusal := self.admission.refusal_of_content(task)) is not None:
            task.fail(refusal)
        else:
            self.feed.put(task)

    def adopt(self, task: Task) -> None:
        """Queue *task* of the version that this one replaces."""
        task.move_to(self)
        self.put(task)

    def hold(self, users: int) -> None:
        """Count *users* more, until they end, that may queue tasks: it must not be closed."""
        self._users += users

    # ------------------------------------------------------------ what replicas say

    def learn_cost(self, batch: list[Task], cost: float) -> None:
        """Take into account that the inputs of *batch* did cost *cost* together."""
        if self.feed.costs is not None:
            self.feed.costs.learn(batch, cost)

    def on_greeted(self) -> None:
        """Let the replicas of an older version go, if another one answers or none is needed."""
        if self.row.is_asleep:
            self.pool.disband()
        elif self.pool.hand_over():
            self.feed.max_batch_size = self.row.max_batch_size

    def on_lost(self, batch: list[Task]) -> list[Task]:
        """The worker that had *batch* is lost; return the tasks that are tried again."""
        admission = self.admission
        may_retry = self.row.may_retry and admission.is_open and not self._is_draining
        return settle(batch, self.queue, admission.poison, may_retry=may_retry)

    def on_untaken(self, tasks: list[Task]) -> list[Task]:
        """A worker leaves *tasks* to another one; return those that wait for it."""
        if not self.admission.is_open or self._is_draining:
            return settle(tasks, self.queue, self.admission.poison, may_retry=False)
        return queue_again(tasks, self.queue)

    # ------------------------------------------------------------ without an answer of a worker

    def _refuse_those_since(self, moment: float) -> None:
        """Answer 503 to tasks that wait for workers since *moment* or longer."""
        for task in [task for task in self.queue if task.arrived <= moment]:
            self.queue.drop(task, "expired", self.admission.not_ready())

    def cancel(self, task: Task) -> None:
        """Drop *task*, whose client has disconnected, or tell the worker that has it."""
        if task.is_done:
            return
        if self.tracer is not None:
            self.tracer.note_end(task)
        if not task.is_sent:
            self.queue.drop(task, "cancelled", None)
            return
        task.is_cancelled = True
        for replica in self.pool:
            replica.cancel(task)

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline, and note how things are."""
        self.queue.expire(now)
        if self.patience_s:
            self._refuse_those_since(now - self.patience_s)
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
        self.feed.dispatch()

    def leave(self, successor: Batcher | None) -> bool:
        """Return whether there is nothing more to do for this version, which is being replaced.

        Its workers answer the tasks that wait. If no worker is left, *successor* gets them; without
        one they fail.
        """
        waiting = () if self.pool.has_channel else self.queue.take_all()
        for task in waiting:
            if successor is not None:
                successor.adopt(task)
            else:
                task.fail(self.admission.not_ready())
        if self._users or self.queue.waiting or self.pool.running:
            return False
        self.admission.is_open = False
        self.pool.disband()
        return self.bodies.is_unused

    def drain(self) -> None:
        """Try nothing again from now on: the server shuts down."""
        self._is_draining = True

    def close(self) -> None:
        """Fail the tasks that wait: no worker will answer them."""
        self.admission.is_open = False
        self.queue.fail(NotReady())
        for replica in self.pool:
            replica.close()
        self.metrics.set_tasks(0, 0)
        self.metrics.settle()
        self.bodies.close()

    def fail_all(self, error: ServekitError) -> None:
        """Answer all tasks with *error*, those that workers have too."""
        self.queue.fail(error)
        for replica in self.pool:
            for task in replica.tasks:
                task.fail(error)

# SPDX-License-Identifier: Apache-2.0
"""The tasks of one model on this front-end: waiting in the queue, or inside a replica.

A replica is idle or has one batch. When it becomes idle it takes what has queued, at
once; when a task arrives and a replica is idle, it goes at once. So batches are what
came while the replica worked, and batching costs no waiting. Where the last batch had
company, "at once" is after the sockets that were readable together have all been read:
one batch of eight costs less than one of one and another of seven.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import NotReady, ServekitError
from servekit.frontend.batching.admission import admit, refuse
from servekit.frontend.batching.deadlines import deadlines_of
from servekit.frontend.batching.poison import Culprits
from servekit.frontend.batching.queue import TaskQueue
from servekit.frontend.batching.replies import fail_task
from servekit.frontend.batching.task import make_task
from servekit.frontend.batching.throughput import AnswerRate, whole_seconds
from servekit.frontend.http.fields import with_query
from servekit.frontend.memory.body_arena import Bodies
from servekit.ipc.batches import Item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.frontend.batching.queue import QueueMemory
    from servekit.frontend.batching.replica import Replica
    from servekit.frontend.batching.task import Task
    from servekit.frontend.memory.pressure import Pressure
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.ipc.batches import Calls, ProtocolCall
    from servekit.ipc.table import ModelRow
    from servekit.settings import Settings

__all__ = ["Batcher"]

SILENCE_S = 10.0  #: an idle worker that says nothing for so long hangs


class Batcher:
    """Queues the tasks of one model and makes batches of them."""

    call: ProtocolCall | None = None  #: a request that comes here directly has no protocol

    def __init__(
        self,
        row: ModelRow,
        metrics: ModelMetrics,
        loop: Any,
        settings: Settings,
        memory: QueueMemory,
        pressure: Pressure,
    ) -> None:
        """Serve the model of *row*; its queue takes of *memory*."""
        self.metrics = metrics
        self.bodies = Bodies(settings.arena, pressure)
        self.queue = TaskQueue(metrics, memory)
        self.culprits = Culprits()
        self.rate = AnswerRate()
        self.pressure = pressure
        self._loop = loop
        self._front_ends = settings.front_ends
        self.replicas: dict[int, Replica] = {}
        self.leaving: list[Replica] = []  #: of an older version; they serve until others can
        self.idle: list[Replica] = []
        self.flows = 0  #: requests under way that it has, had, or will have a step of
        self.is_open = False  #: there is, or will be in a moment, a replica that answers
        self.is_draining = False  #: nothing is tried again
        self.middleware: Middleware | None = None  #: of its route alone
        self.asked: list[str] = []  #: headers and parameters that the service wants to see
        self.calls: Calls = ()  #: of tasks without a step
        self.has_protocols = False  #: one of its tasks came by a protocol
        self.beside: dict[str, ModelMetrics] = {}  #: of stages that its workers serve too
        self._had_company = False  #: the last batch had more than one member
        self._is_gathering = False  #: it leaves at the end of the loop's turn
        self._timer: Any = None
        self.update(row)

    def update(self, row: ModelRow) -> None:
        """Take over what the routing table says now."""
        self.row = row
        self.queue.capacity = row.capacity
        if not self.leaving:
            self.max_batch_size = row.max_batch_size
        self.max_batch_size = min(self.max_batch_size, row.max_batch_size)
        self.max_delay_s = row.max_delay_s
        self.predict_timeout_s = row.predict_timeout_s
        # a worker may first have to finish a batch of each other front-end
        self.hang_after_s = row.predict_timeout_s * self._front_ends
        self.silence_s = SILENCE_S + row.predict_timeout_s * (self._front_ends - 1)
        was_ready = row.interface is not None
        interfaces = filter(None, (row.interface, *row.beside.values()))
        self.asked = sorted({name for each in interfaces for name in each.asked})
        self.is_open = any(
            replica.state == "serving" or (was_ready and replica.state in ("starting", "backoff"))
            for replica in row.replicas
        )
        if not self.is_open:
            self.queue.fail(self.not_ready())

    def not_ready(self) -> NotReady:
        """Return the refusal of a model without a replica, with the wait for the next worker."""
        now = monotonic()
        tries = [place.next_try - now for place in self.row.replicas if place.next_try > now]
        return NotReady(retry_after_s=whole_seconds(min(tries)) if tries else None)

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
        return len(self.queue)

    @property
    def labels(self) -> dict[str, str]:
        """What tells its series from those of others."""
        row = self.row
        return {"model": row.name, "stage": row.stage} if row.stage else {"model": row.name}

    @property
    def is_empty(self) -> bool:
        """Nothing waits or is to come, and no worker has anything."""
        is_idle = all(each.batch is None for each in self.every_replica)
        return is_idle and not (self.waiting or self.flows)

    def is_culprit(self, task: Task) -> bool:
        """Whether a request that said the same killed a worker not long ago."""
        culprits = self.culprits
        return task.body_bytes in culprits.sizes and culprits.knows(
            task.item.content_type, self.bodies.content(task.item.body), monotonic()
        )

    # ------------------------------------------------------------ in, and out in batches

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Make a task of *request* and queue it, or respond at once."""
        headers, now = request.headers, monotonic()
        deadline, until, refusal = deadlines_of(headers, self.predict_timeout_s, now)
        media_type, accept = headers.get(b"content-type", b""), headers.get(b"accept", b"")
        item = Item(request.body, media_type, accept, request.request_id, deadline)
        item.calls = self.calls
        if call is not None:
            item.protocol, self.has_protocols = call, True
        if request.identity is not None:
            item.identity = request.identity.name, dict(request.identity.attributes)
        asked = with_query(headers, request.target) if self.asked else headers
        exchange.prediction = task = make_task(self, exchange, item, asked, now, until)
        if refusal is None:
            admit(task)
        else:
            refuse(task, refusal)

    def put(self, task: Task) -> None:
        """Queue *task*; it leaves at once if a replica is idle."""
        self.queue.put(task)
        if task.deadline < task.arrived + self.predict_timeout_s:
            self.queue.note_early(task)
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
        if self.pressure.is_stalled and self.pressure.is_waiting(now):
            return  # until the next sweep
        idle, queue = self.idle, self.queue
        while idle and (waiting := len(queue)):
            if self.max_delay_s and self._is_worth_waiting(now):
                return
            share = -(-waiting // len(idle))
            batch = queue.take(now, min(self.max_batch_size, share))
            if batch:
                self._had_company = len(batch) > 1
                idle.pop().send(batch, now)

    def _is_worth_waiting(self, now: float) -> bool:
        """Hold a partial batch back for ``max_delay_s``, never past a member's deadline."""
        oldest = self.queue.first()
        if oldest is None or oldest.was_lost or self.waiting >= self.max_batch_size:
            return False
        until = min(oldest.arrived + self.max_delay_s, oldest.deadline, self.queue.first_deadline)
        if until <= now:
            return False
        if self._timer is not None:
            self._timer.close()
        self._timer = self._loop.timer(until - now)
        self._timer.start(self.dispatch)
        return True

    # ------------------------------------------------------------ without an answer of a worker

    def cancel(self, task: Task) -> None:
        """Drop a task whose client has gone, or tell the worker that has it."""
        if task.is_done:
            return
        if not task.is_sent:
            self.queue.drop(task, "cancelled", None)
            return
        task.is_cancelled = True
        for replica in self.every_replica:
            replica.cancel(task)

    def expire(self, now: float) -> None:
        """Answer 504 to every task past its deadline, waiting or in flight."""
        self.queue.expire(now)
        running = 0
        for replica in self.every_replica:
            replica.expire(now)
            running += len(replica.batch or ())
        self.hand_over()
        self.rate.sample(now, self.metrics.answered, is_idle=not self.waiting + running)
        self.metrics.set_tasks(self.waiting, running)
        self.culprits.forget(now)
        self.bodies.relieve()
        self.bodies.trim()
        if self.pressure.is_high:
            for replica in self.every_replica:
                replica.trim()
        if self.idle and self.waiting:
            self.dispatch()

    def close(self) -> None:
        """The model is gone from the table."""
        self.is_open = False
        self.queue.fail(NotReady())
        for replica in self.every_replica:
            replica.close()
        self.bodies.close()

    def fail_all(self, error: ServekitError) -> None:
        """Answer *error* to all that waits and to all that a worker has."""
        self.queue.fail(error)
        for replica in self.every_replica:
            for task in replica.batch or ():
                fail_task(task, error)

# SPDX-License-Identifier: Apache-2.0
"""One request's input on its way through a queue and a worker."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpResponse
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.memory.pressure import Pressure
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.frontend.tracing.trace import RequestTrace
    from servekit.ipc.batches import SentItem
    from servekit.ipc.table import ModelRow

__all__ = ["INFINITY", "Consumer", "Task", "TaskOwner", "TaskTaker"]

INFINITY = float("inf")


class TaskTracer(Protocol):
    """Notes what becomes of tasks in the traces of their requests."""

    def note_end(self, task: Task, error: ServekitError | None = None) -> None:
        """Note that *task* ends with *error*, or because its client disconnected."""


class TaskOwner(Protocol):
    """The batcher of a task, as far as the task and its answer need it."""

    @property
    def metrics(self) -> ModelMetrics:
        """Counters of the model, or of the stage."""

    @property
    def colocated(self) -> Mapping[str, ModelMetrics]:
        """Counters of the other stages that its workers serve, by name."""

    @property
    def row(self) -> ModelRow:
        """The model, or the stage that its workers are started for."""

    @property
    def tracer(self) -> TaskTracer | None:
        """The tracer, if a plugin wants traces."""

    @property
    def bodies(self) -> BodyArena:
        """Where large bodies lie."""

    @property
    def pressure(self) -> Pressure:
        """How much memory clients may still take."""

    def learn_cost(self, batch: list[Task], cost: float) -> None:
        """Take into account that the inputs of *batch* did cost *cost* together."""

    def cancel(self, task: Task) -> None:
        """Drop *task*, or tell the worker that has it."""


class Consumer(Protocol):
    """Takes the output of a task in place of its client: a step of a pipeline."""

    @property
    def trace(self) -> RequestTrace | None:
        """The trace of its request, until it is over."""

    def take(self, task: Task, response: HttpResponse) -> None:
        """Take what the worker returned for *task*."""

    def fail(self, error: ServekitError) -> None:
        """The task has no output, or no further outputs."""

    def begin_stream(self) -> tuple[float, bytes]:
        """The outputs go to the client one by one.

        :return: when the request arrived, and ``Server-Timing`` of the steps so far.
        """

    def end_stream(self, task: Task, now: float) -> None:
        """The client has all outputs of *task*."""


class Task(Struct, eq=False):
    """Answered exactly once, or dropped when the client has disconnected."""

    exchange: Exchange | None  #: the client's; ``None`` if only the consumer takes the output
    owner: TaskOwner
    item: SentItem
    arrived: float  #: ``monotonic``
    deadline: float  #: ``monotonic``
    body_bytes: int
    until: float = INFINITY  #: ``monotonic``: all of a stream; ``deadline`` is of its next output
    consumer: Consumer | None = None  #: takes the output in place of the client
    is_sent: bool = False  #: a worker has it
    is_done: bool = False  #: answered, or nobody waits for the answer any more
    is_cancelled: bool = False  #: its client disconnected while a worker had it
    was_lost: bool = False  #: a worker was lost with it: it is tried once more, alone

    @property
    def request_id(self) -> str:
        """The id of its request."""
        return self.item.request_id

    def fail(self, error: ServekitError) -> None:
        """Answer with *error*, and count it, unless it is done already."""
        if self.is_done:
            return
        if (tracer := self.owner.tracer) is not None:
            tracer.note_end(self, error)
        self.is_done = True
        self.drop_body()
        if self.consumer is not None:  # the consumer counts it with its request
            self.consumer.fail(error)
        elif self.exchange is not None:
            self.owner.metrics.count_failure(error.status, monotonic() - self.arrived)
            self.exchange.fail(error, self.item.request_id)

    def drop_body(self) -> None:
        """Free the shared memory of a body that no worker has been sent."""
        body = self.item.body
        if type(body) is Slab and not self.is_sent:
            self.owner.bodies.free(body)

    def move_to(self, owner: TaskOwner) -> None:
        """Move it to *owner*; its body is copied if it lies in shared memory."""
        body = self.item.body
        if type(body) is Slab:
            self.item.body = owner.bodies.lay([self.owner.bodies.content(body)])
            self.owner.bodies.free(body)
        self.owner = owner
        if self.exchange is not None and self.consumer is None:
            self.exchange.model_version = owner.row.version.encode()

    def cancel(self) -> None:
        """Drop it: the client has disconnected."""
        self.owner.cancel(self)


class TaskTaker(Protocol):
    """The slots of a worker, as its batcher needs them to send a batch."""

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Send *tasks* to the worker, and return those that it has no room for."""

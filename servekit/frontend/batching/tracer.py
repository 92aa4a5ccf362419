# SPDX-License-Identifier: Apache-2.0
"""Notes in the traces of requests what queues and workers do with them."""

from __future__ import annotations

import os
from operator import attrgetter, itemgetter
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import QueueFull
from servekit.frontend.tracing.trace import RequestTrace
from servekit.ipc.batches import Slab
from servekit.ipc.trace_context import TRACEPARENT
from servekit.ipc.trace_notes import BatchNote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.batching.task import Task
    from servekit.frontend.tracing.traces import Traces
    from servekit.ipc.batches import Part, Reply
    from servekit.ipc.spans import SpanValue
    from servekit.ipc.table import ModelRow, ReplicaRow

__all__ = ["SlotTracer", "Tracer"]

CONTENT_OF = itemgetter(2)
ITEM_OF, HEADERS_OF = attrgetter("item"), attrgetter("headers")
REQUEST_ID_OF = attrgetter("request_id")
MAX_MEMBERS = 64  #: requests of a batch that are named


class Tracer:
    """The tracer of one batcher."""

    __slots__ = ("slow", "traces")

    def __init__(self, traces: Traces, model: str) -> None:
        """Look for slow requests of *model*."""
        self.traces, self.slow = traces, traces.slow_of(model)

    def wants(self, oldest: Task, now: float) -> bool:
        """Whether a batch with *oldest* may hold requests that are traced."""
        return self.traces.live > 0 or now - oldest.arrived >= self.slow.limit_s

    def follow(self, exchange: Exchange, request: HttpRequest, now: float) -> RequestTrace:
        """Return the trace of *request*, whose way takes several batches."""
        return self.traces.follow(exchange, request, now)

    def trace_of(self, task: Task, now: float, *, is_traced: bool = False) -> RequestTrace | None:
        """Return the trace of the request of *task*; begin it if the request is slow.

        :param is_traced: it is to begin in any case.
        """
        if task.is_done:
            return None
        if task.consumer is not None:
            return task.consumer.trace
        exchange = task.exchange
        if exchange is None or exchange.request is None:
            return None
        trace: RequestTrace | None = exchange.trace
        if trace is None and (is_traced or now - task.arrived >= self.slow.limit_s):
            trace = RequestTrace(self.traces, exchange, exchange.request, task.arrived)
        return trace

    def note_end(self, task: Task, error: ServekitError | None = None) -> None:
        """Note that *task* ends with *error*, or because its client disconnected."""
        if isinstance(error, QueueFull):  # many at a time, and none of them waits
            return
        now = monotonic()
        trace = self.trace_of(task, now)
        if trace is not None and not task.is_sent:
            trace.visit((task.arrived, now, None))


class SlotTracer:
    """The tracer of one worker's slots."""

    __slots__ = ("_name", "_replica", "_row", "_tracer")

    def __init__(self, tracer: Tracer, row: ModelRow, replica: ReplicaRow) -> None:
        """Note what *replica* of the model or stage *row* does."""
        self._tracer, self._row, self._replica = tracer, row, replica
        self._name = f"{row.label}/{replica.index}.{replica.generation}-{os.getpid()}"

    def note_reply(self, batch: Sequence[Task], reply: Reply, sent_at: float, now: float) -> None:
        """Note that *batch* is answered by *reply*, where its requests are traced.

        Requests with large answers always are: their clients may take long to read them.
        """
        tracer = self._tracer
        if (
            tracer.traces.live
            or now - batch[0].arrived >= tracer.slow.limit_s
            or Slab in map(type, map(CONTENT_OF, reply.answers))
        ):
            self._note_answered(batch, reply, sent_at, now)

    def _note_answered(
        self, batch: Sequence[Task], reply: Reply, sent_at: float, now: float
    ) -> None:
        found = []
        since, trace_of = now - self._tracer.slow.limit_s, self._tracer.trace_of
        for task, (_, _, content) in zip(batch, reply.answers, strict=True):
            exchange = task.exchange
            if (
                exchange is not None
                and exchange.trace is None
                and task.arrived > since
                and type(content) is not Slab
            ):
                continue  # most of them
            is_large = type(content) is Slab
            if (trace := trace_of(task, now, is_traced=is_large)) is not None:
                found.append((task, trace))
        if not found:
            return
        note = self._note(batch, reply.batch, sum(reply.sizes) or len(batch), sent_at, now)
        note.times = reply.decode_s, reply.predict_s, reply.encode_s
        note.steps, note.recorded = reply.steps, reply.trace
        _visit(found, note, now)

    def note_loss(
        self, tasks: Sequence[Task], batch: Sequence[Task], number: int, sent_at: float
    ) -> None:
        """Note that the worker does not answer *tasks* of *batch* in time, or never will."""
        now = monotonic()
        if found := self._traced(tasks, now):
            note = self._note(batch, number, len(batch), sent_at, now)
            note.attributes = {"is_answered": False}
            _visit(found, note, now)

    def note_stream(
        self,
        task: Task,
        number: int,
        sent_at: float,
        attributes: dict[str, SpanValue],
        last: Part | None,
    ) -> None:
        """Note that stream *number* of the worker, that of *task*, has ended, or that it has to.

        :param last: what ended it; ``None``: the worker is lost, or late.
        """
        now = monotonic()
        if self._tracer.wants(task, now) and (found := self._traced((task,), now)):
            note = self._note((task,), number, 1, sent_at, now)
            note.attributes = attributes
            if last is not None:
                note.times, note.recorded = last.times, last.trace
            _visit(found, note, now)

    def _traced(self, tasks: Sequence[Task], now: float) -> list[tuple[Task, RequestTrace]]:
        """Return those of *tasks* whose requests are traced, with the traces."""
        found = ((task, self._tracer.trace_of(task, now)) for task in tasks)
        return [(task, trace) for task, trace in found if trace is not None]

    def _note(
        self, batch: Sequence[Task], number: int, size: int, sent_at: float, now: float
    ) -> BatchNote:
        row, replica, items = self._row, self._replica, list(map(ITEM_OF, batch))
        headers = [each for each in map(HEADERS_OF, items) if each and TRACEPARENT in each]
        is_part = batch[0].consumer is not None  # a pipeline may lead through other models
        return BatchNote(
            self._name,
            number,
            row.stage or (row.name if is_part else ""),
            replica.index,
            replica.pid,
            size,
            list(map(REQUEST_ID_OF, items[:MAX_MEMBERS])),
            [each[TRACEPARENT] for each in headers[:MAX_MEMBERS]],
            sent_at,
            now,
        )


def _visit(found: Sequence[tuple[Task, RequestTrace]], note: BatchNote, now: float) -> None:
    for task, trace in found:
        trace.visit((task.arrived, now, note))

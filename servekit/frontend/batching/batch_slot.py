# SPDX-License-Identifier: Apache-2.0
"""The one batch that a worker has at a time: how it is sent, and how its tasks are answered."""

from __future__ import annotations

import logging
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded, ServekitError, Unavailable, WorkerLost
from servekit.extension.http import HttpResponse
from servekit.frontend.batching.liveness import overtime
from servekit.frontend.batching.replies import count_parts, error_from, timing_of
from servekit.frontend.exchange.answer_checks import check_fields, media_types
from servekit.ipc.batches import Predict, Reply, Slab
from servekit.ipc.channel import ChannelClosed, FrameTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension.exchange import Exchange
    from servekit.frontend.batching.channel import Channel
    from servekit.frontend.batching.environment import SlotOwner
    from servekit.frontend.batching.liveness import TimeLimits
    from servekit.frontend.batching.queue import BatchFeed
    from servekit.frontend.batching.replies import Lend
    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.batching.task import Consumer, Task
    from servekit.frontend.batching.tracer import SlotTracer
    from servekit.ipc.batches import ReplyMessage

    #: bytes, and what to call when they have been sent
    Content = tuple[bytes | memoryview, Callable[[], None] | None]

__all__ = ["BatchAnswers", "BatchSlot", "answer_batch"]

log = logging.getLogger("servekit.frontend")

ITEM_OF = attrgetter("item")
BODY_OF = attrgetter("body")


class BatchSlot:
    """Sends batches over one channel, one at a time."""

    __slots__ = (
        *("_answers", "_channel", "_feed", "_leases", "_number", "_replica", "_tracer"),
        *("sent_at", "tasks"),
    )

    def __init__(
        self,
        replica: SlotOwner,
        feed: BatchFeed,
        channel: Channel,
        samples: BatchSamples | None = None,
        tracer: SlotTracer | None = None,
    ) -> None:
        """Send tasks of *feed* for *replica*, nothing yet."""
        self._replica, self._feed, self._channel = replica, feed, channel
        self._leases, self._tracer = replica.leases, tracer
        self._answers = BatchAnswers(replica, channel, samples, tracer)
        self._number = 0
        self.tasks: list[Task] = []  #: the batch that the worker has
        self.sent_at = 0.0  #: ``monotonic``

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Send *tasks* as one batch. Only if the worker is idle.

        :return: those that do not fit: none.
        """
        self.tasks, self.sent_at = tasks, now
        self._number += 1
        items, leases = list(map(ITEM_OF, tasks)), self._leases
        returned: list[int] = []
        if leases.returned or Slab in map(type, map(BODY_OF, items)):
            returned = leases.lend(items)
        try:
            self._channel.send(Predict(self._number, items, returned))
        except FrameTooLarge:
            self._replica.close()
        return []

    def on_message(self, message: ReplyMessage) -> None:
        """Answer the batch; before that the worker gets its next one.

        :raises ChannelClosed: the message is malformed, or for another batch.
        """
        if type(message) is not Reply:
            self._replica.on_message(message)
            return
        replica, sent_at, batch = self._replica, self.sent_at, self._take(message)
        now = replica.life.heard_at = monotonic()
        if not (replica.is_retired or message.is_last):
            self._feed.add(self)
        self._answers.answer(batch, message, sent_at, now)
        if replica.is_retired:
            replica.retire()  # not before: the answers may lie in memory of the worker

    def _take(self, reply: Reply) -> list[Task]:
        """Return the tasks that *reply* answers, in its order; the worker is idle."""
        tasks = self.tasks
        if reply.batch != self._number or not tasks or len(reply.answers) != len(tasks):
            raise ChannelClosed("malformed answer from worker: it is for another batch")
        self.tasks = []
        if self._leases.lent:
            self._leases.end_all_but(reply.held)
        return tasks

    def cancel(self, task: Task) -> None:
        """Tell the worker that the client of *task* has disconnected, if it has the task."""
        if task in self.tasks:
            self._channel.cancelled.mark(self._number, self.tasks.index(task))

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline; the worker finishes the batch."""
        late = [task for task in self.tasks if task.deadline <= now and not task.is_done]
        if late and self._tracer is not None:
            self._tracer.note_loss(late, self.tasks, self._number, self.sent_at)
        for task in late:
            task.fail(DeadlineExceeded())

    def complaint(self, now: float, limits: TimeLimits) -> str:
        """Return what the worker does wrong; "" if nothing."""
        return overtime("predict", now - self.sent_at, limits.batch_s, limits)

    def lose(self) -> list[Task]:
        """The worker is lost: return the tasks that it had, to be tried again or answered."""
        tasks, self.tasks = self.tasks, []
        if tasks and self._tracer is not None:
            self._tracer.note_loss(tasks, tasks, self._number, self.sent_at)
        return tasks


class BatchAnswers:
    """Answers the batches of one worker; they are traced and sampled."""

    __slots__ = ("_replica", "_samples", "_tracer", "lend")

    def __init__(
        self,
        replica: SlotOwner,
        channel: Channel,
        samples: BatchSamples | None,
        tracer: SlotTracer | None,
    ) -> None:
        """Answer what the worker of *replica* says on *channel*."""
        self._replica, self._samples, self._tracer = replica, samples, tracer
        self.lend: Lend = partial(replica.leases.borrow, channel)  #: the bytes of large answers

    def answer(self, batch: list[Task], reply: Reply, sent_at: float, now: float) -> None:
        """Answer *batch*, complete at *sent_at*, with *reply*, which came *now* (``monotonic``).

        :raises ChannelClosed: an answer is malformed; every task has been answered.
        """
        replica = self._replica
        try:
            if self._tracer is not None:
                self._tracer.note_reply(batch, reply, sent_at, now)
            answer_batch(batch, reply, sent_at, now, self.lend)
        except ChannelClosed:
            replica.report_lost(batch)
            for task in batch:
                task.fail(WorkerLost())
            raise
        if self._samples is not None:
            self._samples.note(batch, reply, replica.row.index, sent_at, now)


def answer_batch(batch: list[Task], reply: Reply, sent_at: float, now: float, lend: Lend) -> None:
    """Answer the tasks of *batch*, sent at *sent_at*, after they have been counted.

    :raises ChannelClosed: an answer is malformed; the tasks after it are not answered.
    """
    owner, queue_s, responses = batch[0].owner, sent_at - batch[0].arrived, reply.responses
    decode_s, predict_s, encode_s = reply.decode_s, reply.predict_s, reply.encode_s
    ipc_s = max(0.0, now - sent_at - decode_s - predict_s - encode_s)
    timing = _server_timing(sum(reply.sizes) or len(batch), reply, ipc_s)
    durations_s: list[float] = []
    answers: list[tuple[Exchange, HttpResponse]] = []
    try:
        for task, (error, media_type, content) in zip(batch, reply.answers, strict=True):
            body: bytes | memoryview = content  # type: ignore[assignment]
            release = None
            if error or type(content) is not bytes or task.is_done or task.deadline <= now:
                found = _content_of(task, error, content, now, lend)
                if found is None:
                    continue
                body, release = found
            queue = b"queue;dur=%.3f, %b" % ((sent_at - task.arrived) * 1e3, timing)
            response = HttpResponse(
                200, body, media_types[media_type], task.item.request_id, queue, (), release
            )
            if responses and (own := responses.get(batch.index(task))):
                check_fields(*own)
                response.status, response.fields = own
            task.is_done = True
            if task.consumer is not None:
                _pass_on(task, task.consumer, response)
            elif task.exchange is not None:
                answers.append((task.exchange, response))
                if response.status == 200:
                    durations_s.append(now - task.arrived)
                else:
                    owner.metrics.observe_response(response.status, now - task.arrived)
    finally:
        owner.metrics.answered += (size := len(batch))
        owner.metrics.answered_at = now
        if owner.colocated or reply.sizes:
            count_parts(batch, queue_s, reply, ipc_s)
        else:
            owner.metrics.batches += (size, queue_s, decode_s, predict_s, encode_s, ipc_s)
        owner.metrics.observe_successes(durations_s)
        _respond(answers)  # counted before: a client may look at once


def _pass_on(task: Task, consumer: Consumer, response: HttpResponse) -> None:
    """Let *consumer* take the output of *task*; what fails there harms no other member."""
    try:
        consumer.take(task, response)
    except ChannelClosed:
        raise
    except Exception:
        log.exception("request %s: its output cannot be passed on", task.request_id)
        consumer.fail(ServekitError())


def _respond(answers: list[tuple[Exchange, HttpResponse]]) -> None:
    """Send each answer, whatever becomes of those before it."""
    for exchange, response in answers:
        try:
            exchange.respond(response)
        except Exception:
            log.exception("request %s: its response cannot be sent", response.request_id)
            exchange.reset()


def _content_of(
    task: Task, error: str, content: bytes | Slab, now: float, lend: Lend
) -> Content | None:
    """Return what *task* is answered with, or ``None``: it is answered, or has to be no more."""
    body, release = lend(content) if isinstance(content, Slab) else (content, None)
    if task.deadline <= now:
        task.fail(DeadlineExceeded())
    elif error:
        task.fail(error_from(error, bytes(body)))
    elif release is not None and task.owner.pressure.refuses_answer(now):
        task.fail(Unavailable())
    if not task.is_done:
        return body, release
    if release is not None:
        release()
    return None


def _server_timing(size: int, reply: Reply, ipc_s: float) -> bytes:
    """Return what ``Server-Timing`` says of a batch that was on its way for *ipc_s*."""
    decode_ms, encode_ms, ipc_ms = reply.decode_s * 1e3, reply.encode_s * 1e3, ipc_s * 1e3
    if reply.steps:
        told = decode_ms, size, timing_of(reply.steps), encode_ms, ipc_ms
        return b"batch;dur=%.3f;desc=%d, %b, encode;dur=%.3f, ipc;dur=%.3f" % told
    parts = decode_ms, size, reply.predict_s * 1e3, encode_ms, ipc_ms
    return b"batch;dur=%.3f;desc=%d, predict;dur=%.3f, encode;dur=%.3f, ipc;dur=%.3f" % parts

# SPDX-License-Identifier: Apache-2.0
"""A response whose outputs are sent as they come."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from servekit.errors import ServekitError, problem_of
from servekit.extension.http import NO_LENGTH, HttpResponse
from servekit.frontend.batching.batch_slot import answer_batch
from servekit.frontend.batching.replies import count_stages, error_from, timing_of
from servekit.frontend.exchange.answer_checks import media_types
from servekit.ipc.batches import Reply
from servekit.ipc.channel import ChannelClosed
from servekit.ipc.stream_formats import STREAM_FORMATS, StreamFormat, styled

if TYPE_CHECKING:
    from servekit.extension.exchange import BodyWriter, Exchange
    from servekit.extension.protocol import Protocol
    from servekit.frontend.batching.replies import Lend
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Part

__all__ = ["StreamedResponse"]

log = logging.getLogger("servekit.frontend")

KEEP_ALIVE_S = 3.0  #: the longest silence of a stream


class StreamedResponse:
    """The stream of one task that a worker has. Without outputs to send on, it is one response."""

    __slots__ = (
        *("_exchange", "_first_at", "_format", "_is_counted", "_output_at", "_outputs", "_steps"),
        *("_writer", "_written", "_written_at", "sent_at", "task"),
    )

    _exchange: Exchange
    _writer: BodyWriter

    def __init__(self, task: Task, now: float, *, is_stream: bool) -> None:
        """*task* goes to a worker *now*; its status is open until the first output.

        :param is_stream: it is known to be one before its first output.
        """
        self.task, self.sent_at = task, now  #: ``monotonic``
        self._first_at, self._outputs = 0.0, 0
        self._format: StreamFormat | None = None  #: once the client has the head
        self._steps: dict[str, float] = {}  #: of stages that share the worker: seconds
        self._written, self._written_at = 0, now  #: bytes, and ``monotonic``
        self._output_at = now  #: ``monotonic``: when the last outputs came
        self._is_counted = False
        if is_stream:
            self._count()

    def _count(self) -> None:
        """Count it as a stream, once."""
        if not self._is_counted:
            self._is_counted = True
            self.task.owner.metrics.count_stream(+1)

    @property
    def has_begun(self) -> bool:
        """Whether the client has its head."""
        return self._format is not None

    def write(self, part: Part, now: float) -> None:
        """Send the outputs of *part*; the time for the next one begins.

        :raises ChannelClosed: the worker may not stream this task, or not in this format.
        """
        task = self.task
        task.owner.metrics.count_outputs(part.outputs)
        self._outputs += part.outputs
        self._steps |= part.steps
        if not part.media_type or task.is_done:
            return
        if task.exchange is None:
            raise ChannelClosed("malformed answer from worker: a stream in place of a value")
        if task.exchange.is_closed:
            return
        if self._format is None:
            self._begin(task.exchange, part.media_type, now)
        elif part.outputs:
            task.owner.metrics.observe_outputs(part.outputs, now - self._output_at)
        self._output_at = now if part.outputs else self._output_at
        if part.body:
            task.deadline = min(task.until, now + task.owner.row.predict_timeout_s)
            self._put(part.body, now)

    def _begin(self, exchange: Exchange, media_type: str, now: float) -> None:
        task = self.task
        self._count()
        self._first_at = now
        self._exchange, self._format = exchange, format_of(task, exchange, media_type)
        arrived, before = task.consumer.begin_stream() if task.consumer else (task.arrived, b"")
        task.owner.metrics.observe_first_output(now - arrived)
        queue_s = self.sent_at - task.arrived
        timing = b"%bqueue;dur=%.3f, %b" % (before, queue_s * 1e3, self._timing_of_first(now))
        response = HttpResponse(200, b"", media_type, task.request_id, timing)
        response.fields, response.length = (("X-Accel-Buffering", "no"),), NO_LENGTH
        response.model_version = exchange.model_version
        self._writer = exchange.begin_stream(self, response)

    def _timing_of_first(self, now: float) -> bytes:
        """Return ``Server-Timing`` of the worker's part in the first output."""
        host = self.task.owner.row.stage
        led = {stage: step_s for stage, step_s in self._steps.items() if stage != host}
        first_s = max(0.0, now - self.sent_at - sum(led.values()))
        return b"%bfirst;dur=%.3f" % (timing_of(led) + b", " if led else b"", first_s * 1e3)

    def _put(self, piece: bytes, now: float) -> None:
        self._written_at = now
        self._written += len(piece)
        if not self._writer.write(piece):
            self._exchange.reset()  # its client reads too slowly, or not at all

    def keep_alive(self, now: float) -> None:
        """Send something if the last output was long ago, and the client takes it at once."""
        if self._format is None or now - self._written_at < KEEP_ALIVE_S:
            return
        if self.task.is_done or self._exchange.is_closed:
            return
        if self._format.keep_alive and not self._writer.is_waiting:
            self._put(self._format.keep_alive, now)

    def end(self, part: Part, now: float, lend: Lend) -> None:
        """The worker is done with the task, and *part* is its last one.

        :raises ChannelClosed: its end is malformed.
        """
        assert part.end is not None
        self.forget()
        if self._format is None:
            self._answer(part, now, lend)
            return
        task, (error, _, content) = self.task, part.end
        queue_s, metrics = self.sent_at - task.arrived, task.owner.metrics
        metrics.answered += 1
        metrics.answered_at = now
        if task.owner.colocated:
            count_stages([task], queue_s, self._steps)
        else:
            metrics.observe_queue(queue_s)
            metrics.observe_step(1, now - self.sent_at)
        if self._exchange.is_closed:
            task.is_done = True
        elif error:
            task.fail(error_from(error, content if isinstance(content, bytes) else b""))
        elif not task.is_done:
            task.is_done = True
            if task.consumer is None:
                task.owner.metrics.observe_response(200, now - task.arrived)
            else:
                task.consumer.end_stream(task, now)
            self._finish(self._format.end)

    def _answer(self, part: Part, now: float, lend: Lend) -> None:
        """Answer with the end of *part* alone: no output has been sent."""
        assert part.end is not None
        times = part.times or (0.0, now - self.sent_at, 0.0)
        reply = Reply(0, [part.end], *times, steps=self._steps)
        if part.response:
            reply.responses = {0: part.response}
        answer_batch([self.task], reply, self.sent_at, now, lend)

    def fail(self, error: ServekitError) -> None:
        """End a stream that has begun with *error*, in its format."""
        self._finish(self._error_piece(error), error.status)

    def _error_piece(self, error: ServekitError) -> bytes:
        protocol, request_id = protocol_of(self.task, self._exchange), self.task.request_id
        if protocol is None:
            assert self._format is not None
            return self._format.error % msgspec.json.encode(problem_of(error, request_id))
        try:
            return protocol.stream_error(error, request_id)
        except Exception:
            log.exception("%s: stream_error failed", type(protocol).__name__)
            return b""

    def _finish(self, last: bytes, status: int = 200) -> None:
        exchange = self._exchange
        if last:
            self._put(last, monotonic())
        if not exchange.is_closed:
            self._writer.end()
            exchange.end_stream(self._written, status)

    def break_off(self) -> None:
        """Give the client no more: its response cannot be written."""
        if self._format is None:
            self.task.fail(ServekitError())
        else:
            self.task.is_done = True
            self._exchange.reset()

    def described(self, *, is_answered: bool) -> dict[str, str | int | float | bool]:
        """Return what traces say of it."""
        found: dict[str, str | int | float | bool] = {"outputs": self._outputs}
        if self._first_at:
            found["first_output_s"] = self._first_at - self.sent_at
        return found if is_answered else found | {"is_answered": False}

    def forget(self, *, is_stream: bool = True) -> None:
        """No worker has the task any more, which was no stream unless *is_stream*."""
        if not self._is_counted:
            return
        metrics = self.task.owner.metrics
        metrics.count_stream(-1)
        if is_stream and self.task.is_cancelled:
            metrics.count_cancelled_stream()


def protocol_of(task: Task, exchange: Exchange) -> Protocol | None:
    """Return the protocol that shapes the stream of *task*; only other streams have a style."""
    return exchange.protocol if task.item.style is None else None


def format_of(task: Task, exchange: Exchange, media_type: str) -> StreamFormat:
    """Return the format of the stream of *task* in *media_type*.

    :raises ChannelClosed: the worker may not stream in it.
    """
    protocol = protocol_of(task, exchange)
    if protocol is not None:
        return StreamFormat(media_types[media_type], b"", b"", b"", protocol.keep_alive)
    if media_type not in STREAM_FORMATS:
        raise ChannelClosed(f"malformed answer from worker: {media_type!r} is not streamed")
    return styled(media_type, task.item.style)

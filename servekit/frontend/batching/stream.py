# SPDX-License-Identifier: Apache-2.0
"""An answer whose outputs go out as they come, on the exchange of its task."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from servekit.errors import problem_of
from servekit.extension.http import NO_LENGTH, HttpResponse
from servekit.frontend.batching.replies import (
    answer_batch,
    error_from,
    fail_task,
    observe_stages,
    timing_of,
)
from servekit.frontend.exchange.answer_checks import media_types
from servekit.ipc.batches import Reply
from servekit.ipc.channel import ChannelClosed
from servekit.ipc.stream_formats import STREAM_FORMATS, StreamFormat

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.exchange import BodyWriter
    from servekit.frontend.batching.replies import Lend
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Part

__all__ = ["StreamedAnswer"]

log = logging.getLogger("servekit.frontend")

KEEP_ALIVE_S = 3.0  #: a stream says something so often


class StreamedAnswer:
    """Of one task, from its way to a worker to the end; becomes a plain answer if it can."""

    __slots__ = (*("_format", "_said_at", "_sent_at", "_steps", "_writer", "task", "written"),)

    def __init__(self, task: Task, now: float) -> None:
        """*task* went to a worker at *now*; its status is open until the first output."""
        self.task, self._sent_at = task, now
        self._format: StreamFormat | None = None
        self._writer: BodyWriter
        self._said_at = now
        self._steps: dict[str, float] = {}  #: of stages that share the worker: seconds
        self.written = 0  #: bytes
        task.batcher.metrics.count_stream(+1)

    def write(self, part: Part, now: float) -> None:
        """Send the outputs of *part*; the time for the next one begins."""
        task = self.task
        task.batcher.metrics.count_outputs(part.outputs)
        self._steps |= part.steps
        if not part.media_type or task.is_done or task.exchange.is_closed:
            return
        if self._format is None:
            self._begin(part.media_type, now)
        if part.body:
            task.deadline = min(task.until, now + task.batcher.predict_timeout_s)
            self._put(part.body, now)

    def _begin(self, media_type: str, now: float) -> None:
        task = self.task
        self._format = self._format_of(media_type)
        arrived, before = (task.arrived, b"") if task.step is None else task.step.begin_stream()
        task.batcher.metrics.observe_first_output(now - arrived)
        host, steps = task.batcher.row.stage, self._steps
        led = {stage: step_s for stage, step_s in steps.items() if stage != host}
        timing = b"%bqueue;dur=%.3f, %bfirst;dur=%.3f" % (
            before,
            (self._sent_at - task.arrived) * 1e3,
            timing_of(led) + b", " if led else b"",
            max(0.0, now - self._sent_at - sum(led.values())) * 1e3,
        )
        response = HttpResponse(
            *(200, b"", media_type, task.request_id, timing),
            fields=(("X-Accel-Buffering", "no"),),
            length=NO_LENGTH,
        )
        self._writer = task.exchange.begin_stream(self, response)

    def _format_of(self, media_type: str) -> StreamFormat:
        protocol = self.task.exchange.protocol
        if protocol is not None:
            return StreamFormat(media_types[media_type], b"", b"", b"", protocol.keep_alive)
        if media_type not in STREAM_FORMATS:
            raise ChannelClosed(f"malformed answer from worker: {media_type!r} is no stream format")
        return STREAM_FORMATS[media_type]

    def _put(self, piece: bytes, now: float) -> None:
        self._said_at = now
        self.written += len(piece)
        if not self._writer.write(piece):
            self.task.exchange.reset()  # its client reads too slowly, or not at all

    def keep_alive(self, now: float) -> None:
        """Say something if nothing has been said for long, and the client would hear it."""
        if self._format is None or now - self._said_at < KEEP_ALIVE_S:
            return
        if self.task.is_done or self.task.exchange.is_closed:
            return
        if self._format.keep_alive and not self._writer.is_waiting:
            self._put(self._format.keep_alive, now)

    def end(self, part: Part, now: float, lend: Lend) -> None:
        """The worker is done with the task, and *part* is its last one.

        :raises ChannelClosed: its end is none.
        """
        answer = part.end
        assert answer is not None
        task, batch = self.task, [self.task]
        self.forget()
        if self._format is None:
            responses = {0: part.response} if part.response else {}
            predict_s, steps = now - self._sent_at, self._steps
            reply = Reply(0, [answer], 0.0, predict_s, 0.0, responses=responses, steps=steps)
            answer_batch(batch, reply, self._sent_at, now, lend)
            return
        if task.exchange.is_closed:
            task.is_done = True
        elif answer[0]:
            body = answer[2] if isinstance(answer[2], bytes) else b""
            fail_task(task, error_from(answer[0], body))
        elif not task.is_done:
            task.is_done = True
            self._finish(self._format.end)
            if task.step is None:
                task.batcher.metrics.observe_answer(now - task.arrived)
            else:
                task.step.end_stream(task, now)
        queued_s = self._sent_at - task.arrived
        if task.batcher.beside:
            observe_stages(batch, queued_s, self._steps)
        else:
            task.batcher.metrics.observe_batch(1, queued_s, now - self._sent_at)

    def fail(self, error: ServekitError) -> None:
        """End what has begun by telling *error*."""
        self._finish(self._error_piece(error), error.status)

    def _error_piece(self, error: ServekitError) -> bytes:
        assert self._format is not None
        protocol, request_id = self.task.exchange.protocol, self.task.request_id
        if protocol is None:
            return self._format.error % msgspec.json.encode(problem_of(error, request_id))
        try:
            return protocol.stream_error(error, request_id)
        except Exception:
            log.exception("%s: stream_error failed", type(protocol).__name__)
            return b""

    def _finish(self, last: bytes, status: int = 200) -> None:
        exchange = self.task.exchange
        if last:
            self._put(last, monotonic())
        if not exchange.is_closed:
            self._writer.end()
            exchange.end_stream(self.written, status)

    def forget(self) -> None:
        """No worker has the task any more."""
        self.task.batcher.metrics.count_stream(-1)
        if self.task.is_cancelled:
            self.task.batcher.metrics.count_cancelled_stream()

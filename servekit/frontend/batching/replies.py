# SPDX-License-Identifier: Apache-2.0
"""Turns the answers of a batch into responses, one for each task, and counts them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct, json

from servekit.errors import DeadlineExceeded, RequestError, Unavailable, error_class
from servekit.extension.http import HttpResponse
from servekit.frontend.exchange.answer_checks import check_fields, media_types
from servekit.ipc.batches import Slab
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from servekit.errors import ServekitError
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Reply

    #: from a large answer to its bytes, and what to call when they have been sent
    Lend = Callable[[Slab], tuple[memoryview, Callable[[], None]]]
    #: bytes, and what to call when they have been sent
    Content = tuple[bytes | memoryview, Callable[[], None] | None]

__all__ = ["Lend", "answer_batch", "count_stages", "error_from", "timing_of"]


def answer_batch(batch: list[Task], reply: Reply, sent_at: float, now: float, lend: Lend) -> None:
    """Answer the tasks of *batch*, sent at *sent_at*, in one pass.

    :raises ChannelClosed: an answer is malformed; the tasks after it are not answered.
    """
    owner, queue_s = batch[0].owner, sent_at - batch[0].arrived
    if owner.colocated:
        count_stages(batch, queue_s, reply.steps)
    else:
        owner.metrics.observe_batch(len(batch), queue_s, reply.predict_s)
    timing = _server_timing(len(batch), reply, now - sent_at)
    metrics, responses = owner.metrics, reply.responses
    durations_s: list[float] = []
    is_many = len(batch) > 1
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
                task.consumer.take(task, response)
            elif task.exchange is not None:
                if is_many and response.status == 200:
                    durations_s.append(now - task.arrived)
                else:
                    metrics.observe_response(response.status, now - task.arrived)
                task.exchange.respond(response)
    finally:
        if durations_s:
            metrics.observe_successes(durations_s)


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


def count_stages(batch: list[Task], queue_s: float, steps: Mapping[str, float]) -> None:
    """Count *batch* with each of the stages of its workers that had a part in it.

    :param queue_s: that its oldest task waited for a worker.
    :param steps: seconds that each stage took.
    """
    owner = batch[0].owner
    owner.metrics.observe_queue(queue_s)
    sizes = Counter(call.stage for task in batch for call in task.item.calls)
    for stage, step_s in steps.items():
        metrics = owner.metrics if stage == owner.row.stage else owner.colocated.get(stage)
        if metrics is not None and sizes[stage]:
            metrics.observe_step(sizes[stage], step_s)


def timing_of(steps: Mapping[str, float]) -> bytes:
    """Return what ``Server-Timing`` says of *steps*, seconds by stage."""
    return ", ".join(f"{stage};dur={step_s * 1e3:.3f}" for stage, step_s in steps.items()).encode()


def _server_timing(size: int, reply: Reply, elapsed_s: float) -> bytes:
    """Return what ``Server-Timing`` says of a batch that was answered after *elapsed_s*."""
    worker_s = reply.decode_s + reply.predict_s + reply.encode_s
    decode_ms, encode_ms = reply.decode_s * 1e3, reply.encode_s * 1e3
    ipc_ms = max(0.0, elapsed_s - worker_s) * 1e3
    if reply.steps:
        told = decode_ms, size, timing_of(reply.steps), encode_ms, ipc_ms
        return b"batch;dur=%.3f;desc=%d, %b, encode;dur=%.3f, ipc;dur=%.3f" % told
    parts = decode_ms, size, reply.predict_s * 1e3, encode_ms, ipc_ms
    return b"batch;dur=%.3f;desc=%d, predict;dur=%.3f, encode;dur=%.3f, ipc;dur=%.3f" % parts


class ErrorBody(Struct):
    """The body of an error that crossed the channel."""

    detail: str = ""
    errors: list[dict[str, str]] = []
    traceback: str = ""  #: set for failures if the server runs with ``--dev``


_decode_error = json.Decoder(ErrorBody).decode


def error_from(name: str, body: bytes) -> ServekitError:
    """Return the error that crossed the channel. What a client cannot fix has no detail.

    :raises ChannelClosed: it is malformed.
    """
    kind = error_class(name)
    if not issubclass(kind, RequestError) and b'"traceback"' not in body:
        return kind()
    try:
        told = _decode_error(body)
    except MsgspecError as error:
        raise ChannelClosed(f"malformed answer from worker: {error}") from error
    if issubclass(kind, RequestError):
        return kind(told.detail, told.errors)
    failed = kind()
    failed.told, failed.traceback = told.detail, told.traceback
    return failed

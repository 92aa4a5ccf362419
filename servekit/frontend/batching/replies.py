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

__all__ = ["Lend", "answer_batch", "count_batch", "error_from", "timing_of"]


def answer_batch(batch: list[Task], reply: Reply, sent_at: float, now: float, lend: Lend) -> None:
    """Answer the tasks of *batch*, sent at *sent_at*, in one pass.

    :raises ChannelClosed: an answer is malformed; the tasks after it are not answered.
    """
    count_batch(batch, sent_at - batch[0].arrived, reply.predict_s, reply.steps)
    timing = _server_timing(len(batch), reply, now - sent_at)
    metrics, responses = batch[0].owner.metrics, reply.responses
    for task, (error, media_type, body) in zip(batch, reply.answers, strict=True):
        content, release = lend(body) if isinstance(body, Slab) else (body, None)
        is_special = error or release is not None or task.is_done or task.deadline <= now
        if is_special and _is_settled(task, error, content, release, now):
            continue
        queue = b"queue;dur=%.3f, %b" % ((sent_at - task.arrived) * 1e3, timing)
        response = HttpResponse(
            200, content, media_types[media_type], task.item.request_id, queue, (), release
        )
        if responses and (own := responses.get(batch.index(task))):
            check_fields(*own)
            response.status, response.fields = own
        task.is_done = True
        if task.consumer is not None:
            task.consumer.take(task, response)
        elif task.exchange is not None:
            metrics.observe_response(response.status, now - task.arrived)
            task.exchange.respond(response)


def _is_settled(
    task: Task,
    error: str,
    content: bytes | memoryview,
    release: Callable[[], None] | None,
    now: float,
) -> bool:
    """Answer *task* with an error if there is one; return whether it needs no other answer."""
    if task.deadline <= now:
        task.fail(DeadlineExceeded())
    elif error:
        task.fail(error_from(error, bytes(content)))
    elif release is not None and task.owner.pressure.refuses_answer(now):
        task.fail(Unavailable())
    if task.is_done and release is not None:
        release()
    return task.is_done


def count_batch(
    batch: list[Task], queue_s: float, predict_s: float, steps: Mapping[str, float]
) -> None:
    """Count *batch*, of workers of one stage or of several.

    :param queue_s: that its oldest task waited for a worker.
    :param steps: seconds that each stage took, if the workers have several.
    """
    owner = batch[0].owner
    if not owner.colocated:
        owner.metrics.observe_batch(len(batch), queue_s, predict_s)
        return
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
    worker_s = reply.decode_s + reply.predict_s + reply.encode_s
    predict = b"predict;dur=%.3f" % (reply.predict_s * 1e3)
    if reply.steps:
        predict = timing_of(reply.steps)
    return b"batch;dur=%.3f;desc=%d, %b, encode;dur=%.3f, ipc;dur=%.3f" % (
        reply.decode_s * 1e3,
        size,
        predict,
        reply.encode_s * 1e3,
        max(0.0, elapsed_s - worker_s) * 1e3,
    )


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

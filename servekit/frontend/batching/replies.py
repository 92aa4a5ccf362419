# SPDX-License-Identifier: Apache-2.0
"""Turns the answers of a batch into responses, one for each exchange, and counts them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct, json

from servekit.errors import DeadlineExceeded, RequestError, Unavailable, error_class
from servekit.extension.http import HttpResponse
from servekit.frontend.exchange.answer_checks import check_fields, media_types
from servekit.frontend.metrics import counters as metrics
from servekit.ipc.batches import Slab
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from servekit.errors import ServekitError
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Reply

    #: from a large answer to its bytes and what to call when they are out
    Lend = Callable[[Slab], tuple[memoryview, Callable[[], None]]]

__all__ = ["Lend", "answer_batch", "error_from", "fail_task", "observe_stages", "timing_of"]


def answer_batch(batch: list[Task], reply: Reply, sent_at: float, now: float, lend: Lend) -> None:
    """Answer the members of *batch*, sent at *sent_at*, in one pass.

    :raises ChannelClosed: an answer is none; the members after it are not answered.
    """
    timing = _server_timing(len(batch), reply, now - sent_at)
    batcher = batch[0].batcher
    counters, queue_s = batcher.metrics, sent_at - batch[0].arrived
    if batcher.beside:
        observe_stages(batch, queue_s, reply.steps)
    else:
        counters.observe_batch(len(batch), queue_s, reply.predict_s)
    values, bounds = counters.values, metrics.DURATIONS
    responses = reply.responses
    for task, (error, media_type, body) in zip(batch, reply.answers, strict=True):
        content, release = lend(body) if isinstance(body, Slab) else (body, None)
        if task.deadline <= now:
            fail_task(task, DeadlineExceeded())
        elif error:
            fail_task(task, error_from(error, bytes(content)))
        elif release is not None and batcher.pressure.refuses_answer(now):
            fail_task(task, Unavailable())
        if task.is_done:
            if release is not None:
                release()
            continue
        if task.step is not None:
            task.is_done = True
            own = responses.get(batch.index(task)) if responses else None
            task.step.take(task, media_type, content, release, own)
            continue
        response = HttpResponse(
            200,
            content,
            media_types[media_type],
            task.request_id,
            b"queue;dur=%.3f, %b" % ((sent_at - task.arrived) * 1e3, timing),
            release=release,
        )
        counted = metrics.OK
        if responses:
            counted = _take_own(response, responses.get(batch.index(task)))
        task.is_done = True
        duration = now - task.arrived
        values[metrics.REQUESTS + bisect_left(bounds, duration)] += 1
        values[metrics.REQUESTS_SUM] += duration
        values[counted] += 1
        task.exchange.respond(response)


def _take_own(response: HttpResponse, own: tuple[int, list[tuple[str, str]]] | None) -> int:
    """Give *response* the status and fields that the service chose; return where it is counted."""
    if own is not None:
        check_fields(*own)
        response.status, response.fields = own
    return metrics.PLACES.get(response.status, metrics.OTHER_STATUS)


def observe_stages(batch: list[Task], queue_s: float, steps: Mapping[str, float]) -> None:
    """Count *batch* with each of the stages of one worker that had a part in it.

    :param steps: seconds that each of them took.
    """
    batcher = batch[0].batcher
    batcher.metrics.observe_queue(queue_s)
    sizes = Counter(call.stage for task in batch for call in task.item.calls)
    for stage, step_s in steps.items():
        counters = batcher.metrics if stage == batcher.row.stage else batcher.beside.get(stage)
        if counters is not None and sizes[stage]:
            counters.observe_step(sizes[stage], step_s)


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


def fail_task(task: Task, error: ServekitError) -> None:
    """Answer *task* with *error* and count it, unless it is done already."""
    if not task.is_done:
        if task.step is None:  # else it is counted with its request
            task.batcher.metrics.count_status(error.status)
        task.fail(error)


class Said(Struct):
    """The body of an error that crossed the channel."""

    detail: str = ""
    errors: list[dict[str, str]] = []
    traceback: str = ""  #: of a failure, where the server is for development


_decode_said = json.Decoder(Said).decode


def error_from(name: str, body: bytes) -> ServekitError:
    """Rebuild an error that crossed the channel; what is not the client's to fix says no more."""
    kind = error_class(name)
    if not issubclass(kind, RequestError) and b'"traceback"' not in body:
        return kind()
    try:
        said = _decode_said(body)
    except MsgspecError as error:
        raise ChannelClosed(f"the peer sent what is no error: {error}") from error
    if issubclass(kind, RequestError):
        return kind(said.detail, said.errors)
    failed = kind()
    failed.told, failed.traceback = said.detail, said.traceback
    return failed

# SPDX-License-Identifier: Apache-2.0
"""Parts of all answers of workers: their errors, and the stages that took part."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct, json

from servekit.errors import RequestError, error_class
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from servekit.errors import ServekitError
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Reply, Slab

    #: from a large answer to its bytes, and what to call when they have been sent
    Lend = Callable[[Slab], tuple[memoryview, Callable[[], None]]]

__all__ = ["Lend", "count_parts", "count_stages", "error_from", "timing_of"]


def count_parts(batch: list[Task], queue_s: float, reply: Reply, ipc_s: float) -> None:
    """Count *batch*, which several stages or several calls of ``predict`` answered."""
    owner = batch[0].owner
    if owner.colocated:
        count_stages(batch, queue_s, reply.steps)
    else:
        owner.metrics.observe_calls(reply.sizes, queue_s, reply.predict_s)
    owner.metrics.observe_overhead(reply.decode_s, reply.encode_s, ipc_s)
    if reply.cost:
        owner.learn_cost(batch, reply.cost)


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

# SPDX-License-Identifier: Apache-2.0
"""The decision to take a task: is the model able to answer, and is there room to wait."""

from servekit.errors import PoisonRequest, QueueFull, ServekitError
from servekit.frontend.batching.task import Task

__all__ = ["admit", "pass_on", "refuse"]


def admit(task: Task) -> None:
    """Queue *task* with its model, or answer it at once."""
    batcher = task.batcher
    if not batcher.is_open:
        refuse(task, batcher.not_ready())
    elif not batcher.queue.has_room(task.body_bytes):
        wait_s = batcher.rate.seconds_for(batcher.waiting, task.arrived)
        refuse(task, QueueFull(retry_after_s=wait_s))
    elif batcher.culprits.sizes and batcher.is_culprit(task):
        refuse(task, PoisonRequest())
    else:
        batcher.put(task)


def pass_on(task: Task) -> None:
    """Queue *task*, whose request has been admitted, for one of its steps."""
    batcher = task.batcher
    if not batcher.is_open:
        task.fail(batcher.not_ready())
    elif batcher.culprits.sizes and batcher.is_culprit(task):
        task.fail(PoisonRequest())
    else:
        batcher.put(task)


def refuse(task: Task, error: ServekitError) -> None:
    """Answer *task* with *error* before it was queued."""
    task.batcher.metrics.count_status(error.status)
    task.fail(error)

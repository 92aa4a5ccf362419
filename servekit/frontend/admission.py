# SPDX-License-Identifier: Apache-2.0
"""The decision to take a task: is the model able to answer, and is there room to wait."""

from servekit.errors import NotReady, QueueFull, ServekitError
from servekit.frontend.task import Task

__all__ = ["admit", "refuse"]


def admit(task: Task) -> None:
    """Queue *task* with its model, or answer it at once with 503 or 429."""
    batcher = task.batcher
    if not batcher.is_open:
        refuse(task, NotReady())
    elif batcher.waiting >= batcher.capacity:
        refuse(task, QueueFull())
    else:
        batcher.put(task)


def refuse(task: Task, error: ServekitError) -> None:
    """Answer *task* with *error* before it was queued."""
    task.batcher.metrics.count_status(error.status)
    task.fail(error)

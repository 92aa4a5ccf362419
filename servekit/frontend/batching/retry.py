# SPDX-License-Identifier: Apache-2.0
"""What becomes of a batch whose worker was lost.

A model may allow (``retry``) that its members are tried once more, each alone. Then the
request that kills workers costs two of them, this one and the next, however large the
batch was, and the others are answered. Who was alone with a lost worker twice is a
culprit; once proves nothing, an outsider may have killed it.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import PoisonRequest, WorkerLost
from servekit.frontend.batching.replies import fail_task

if TYPE_CHECKING:
    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.batching.task import Task

__all__ = ["settle"]


def settle(batcher: Batcher, batch: list[Task]) -> list[Task]:
    """Answer the members of the lost *batch*, or queue them again.

    :return: those that wait again; their bodies are theirs again.
    """
    if batcher.row.may_retry and batcher.is_open and not batcher.is_draining:
        if len(batch) == 1 and batch[0].was_lost:
            _convict(batcher, batch[0])
        else:
            return _queue_again(batcher, batch)
    for task in batch:
        fail_task(task, WorkerLost())
    return []


def _queue_again(batcher: Batcher, batch: list[Task]) -> list[Task]:
    again = []
    for task in batch:
        if task.is_cancelled:
            fail_task(task, WorkerLost())
        elif not task.is_done:
            task.was_lost = True
            again.append(task)
    batcher.queue.put_back(again)
    return again


def _convict(batcher: Batcher, task: Task) -> None:
    """Remember *task*, and refuse it and its like."""
    item = task.item
    batcher.culprits.remember(item.content_type, batcher.bodies.content(item.body), monotonic())
    fail_task(task, PoisonRequest())
    for other in list(batcher.queue):
        if batcher.is_culprit(other):
            batcher.queue.drop(other, "poison", PoisonRequest())

# SPDX-License-Identifier: Apache-2.0
"""Retries the members of a batch whose worker was lost.

A model may allow (``retry``) that each member is tried once more, alone. Then a request that kills
its worker costs two of them, this one and the next, however large the batch was, and the others
are answered. A request that was alone with a lost worker twice is poison. Once proves nothing: the
worker may have been killed from outside.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import PoisonRequest, WorkerLost

if TYPE_CHECKING:
    from servekit.frontend.batching.poison import PoisonList
    from servekit.frontend.batching.queue import TaskQueue
    from servekit.frontend.batching.task import Task

__all__ = ["settle"]


def settle(
    batch: list[Task], queue: TaskQueue, poison: PoisonList, *, may_retry: bool
) -> list[Task]:
    """Answer the members of the lost *batch*, or put them back into *queue*.

    :return: those that wait again, with their bodies.
    """
    if may_retry and not (len(batch) == 1 and batch[0].was_lost):
        return _queue_again(batch, queue)
    if may_retry:
        _condemn(batch[0], queue, poison)
    for task in batch:
        task.fail(WorkerLost())
    return []


def _queue_again(batch: list[Task], queue: TaskQueue) -> list[Task]:
    again = []
    for task in batch:
        if task.is_cancelled:
            task.fail(WorkerLost())
        elif not task.is_done:
            task.was_lost = True
            again.append(task)
    queue.put_back(again)
    return again


def _condemn(task: Task, queue: TaskQueue, poison: PoisonList) -> None:
    """Remember *task* as poison; refuse it, and those in *queue* with the same content."""
    now = monotonic()
    poison.add(task, now)
    task.fail(PoisonRequest())
    for other in list(queue):
        if poison.has(other, now):
            queue.drop(other, "poison", PoisonRequest())

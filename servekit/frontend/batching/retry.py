# SPDX-License-Identifier: Apache-2.0
"""Requests whose worker was lost: they are tried once more, or are poison and refused for a while.

A model may allow (``retry``) that each member is tried once more, alone. Then a request that kills
its worker costs two of them, this one and the next, however large the batch was, and the others
are answered. A request that was alone with a lost worker twice is poison. Once proves nothing: the
worker may have been killed from outside.
"""

from __future__ import annotations

from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import PoisonRequest, WorkerLost

if TYPE_CHECKING:
    from servekit.frontend.batching.queue import TaskQueue
    from servekit.frontend.batching.task import Task

__all__ = ["MAX_POISON", "REMEMBERED_S", "PoisonList", "queue_again", "settle"]

REMEMBERED_S = 600.0
MAX_POISON = 1024  #: requests that are remembered


def settle(
    batch: list[Task], queue: TaskQueue, poison: PoisonList, *, may_retry: bool
) -> list[Task]:
    """Answer the members of the lost *batch*, or put them back into *queue*.

    :return: those that wait again, with their bodies.
    """
    if may_retry and not (len(batch) == 1 and batch[0].was_lost):
        again = queue_again(batch, queue)
        for task in again:
            task.was_lost = True
        return again
    if may_retry:
        _condemn(batch[0], queue, poison)
    for task in batch:
        task.fail(WorkerLost())
    return []


def queue_again(batch: list[Task], queue: TaskQueue) -> list[Task]:
    """Put the members of *batch* back into *queue*, but those without a client; return them."""
    again = []
    for task in batch:
        if task.is_cancelled:
            task.fail(WorkerLost())
        elif not task.is_done:
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


class PoisonList:
    """The poison requests of one model. Only bodies of the size of one of them are hashed."""

    __slots__ = ("_until", "sizes")

    def __init__(self) -> None:
        self._until: dict[tuple[int, bytes], float] = {}  #: oldest first
        self.sizes: frozenset[int] = frozenset()  #: of their bodies; empty if there are none

    def add(self, task: Task, now: float) -> None:
        """Remember *task*, which killed a worker at *now*."""
        key = _key(task)
        self._until.pop(key, None)
        self._until[key] = now + REMEMBERED_S
        if len(self._until) > MAX_POISON:
            del self._until[next(iter(self._until))]
        self._note_sizes()

    def has(self, task: Task, now: float) -> bool:
        """Whether a request with the content of *task* killed a worker not long ago."""
        return task.body_bytes in self.sizes and self._until.get(_key(task), now) > now

    def forget(self, now: float) -> None:
        """Drop those whose time is over."""
        over = [key for key, until in self._until.items() if until <= now]
        for key in over:
            del self._until[key]
        if over:
            self._note_sizes()

    def _note_sizes(self) -> None:
        self.sizes = frozenset(size for size, _ in self._until)


def _key(task: Task) -> tuple[int, bytes]:
    content_type = task.item.content_type
    body = task.owner.bodies.content(task.item.body)
    digest = sha256(b"%d:%b" % (len(content_type), content_type))
    digest.update(body)
    return len(body), digest.digest()

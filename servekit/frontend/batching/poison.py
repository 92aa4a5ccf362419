# SPDX-License-Identifier: Apache-2.0
"""Requests that killed a worker. They are refused for a while."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.frontend.batching.task import Task

__all__ = ["MAX_POISON", "REMEMBERED_S", "PoisonList"]

REMEMBERED_S = 600.0
MAX_POISON = 1024  #: requests that are remembered


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

# SPDX-License-Identifier: Apache-2.0
"""The request that a task answers, as its service sees it in ``Context.requests``."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from servekit.worker.prediction.current_batch import NO_BATCH
from servekit.worker.streaming.stepping import CurrentMembers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.ipc.cancellation import CancelledReader
    from servekit.worker.prediction.batch_result import PendingTask
    from servekit.worker.prediction.current_batch import Items
    from servekit.worker.prediction.request_reader import BodyReaders
    from servekit.worker.streaming.stepping import Member

__all__ = ["CurrentRequest"]


class CurrentRequest(CurrentMembers):
    """Differs from task to task: each has its own context, and so has what it starts."""

    __slots__ = ("_batch", "_members", "_tasks")

    def __init__(self, bodies: BodyReaders) -> None:
        """Start without a request."""
        self._batch: ContextVar[tuple[Items, int, CancelledReader | None]] = ContextVar("batch")
        self._tasks: ContextVar[Sequence[PendingTask]] = ContextVar("tasks")
        self._members: ContextVar[Sequence[Member]] = ContextVar("members")
        super().__init__(bodies)

    @property
    def batch(self) -> tuple[Items, int, CancelledReader | None]:
        """The items of the request."""
        return self._batch.get(NO_BATCH)

    @batch.setter
    def batch(self, batch: tuple[Items, int, CancelledReader | None]) -> None:
        self._batch.set(batch)

    @property
    def tasks(self) -> Sequence[PendingTask]:
        """Whose inputs the running task has."""
        return self._tasks.get(())

    @tasks.setter
    def tasks(self, tasks: Sequence[PendingTask]) -> None:
        self._tasks.set(tasks)

    @property
    def members(self) -> Sequence[Member]:
        """The members that take a step, in the task that calls ``step``."""
        return self._members.get(())

    @members.setter
    def members(self, members: Sequence[Member]) -> None:
        self._members.set(members)

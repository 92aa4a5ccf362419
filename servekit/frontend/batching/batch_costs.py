# SPDX-License-Identifier: Apache-2.0
"""Batches of a model whose inputs have a cost: full by cost, and of inputs that are alike.

Bodies are not read here, so the cost of a task is estimated by the size of its body. Workers say
what each batch did cost, and divide those that cost too much after all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.frontend.batching.task import Task
    from servekit.ipc.table import ModelRow

__all__ = ["BatchCosts", "costs_of"]

LOOKED_AT = 512  #: tasks at most that are compared for one batch
MOST_PADDING = 2  #: an input is in no batch with one that costs more than this many times as much
NEWS = 0.125  #: the weight of the last batch in the cost of a byte


class Waiting(Protocol):
    """The queue of a model."""

    def take(self, now: float, room: int) -> list[Task]:
        """Return up to *room* tasks, in order of arrival."""

    def put_back(self, tasks: list[Task]) -> None:
        """Queue *tasks*, which were taken before, ahead of the others."""


class BatchCosts:
    """Chooses which tasks of a queue become the next batch."""

    __slots__ = ("_cost_per_byte", "limits")

    def __init__(self, max_batch_size: int, max_batch_cost: float) -> None:
        """Estimate a cost of 1 for each byte, until ``learn``."""
        self.limits = max_batch_size, max_batch_cost
        self._cost_per_byte = 0.0  #: 0: not known yet

    def take(self, queue: Waiting, now: float, room: int) -> list[Task]:
        """Take a batch of up to *room* tasks out of *queue*, in order of arrival.

        The task that waits longest is always in it, so that none is starved, and then those whose
        cost is nearest to its own. Up to ``LOOKED_AT`` tasks are compared.
        """
        tasks = queue.take(now, max(room, min(8 * room, LOOKED_AT)))
        if len(tasks) < 2:
            return tasks
        chosen = self._chosen(tasks, room)
        if rest := [task for task in tasks if task not in chosen]:
            queue.put_back(rest)
        return [task for task in tasks if task in chosen]

    def _chosen(self, tasks: list[Task], room: int) -> set[Task]:
        """Return those of *tasks* that are a batch with the first one."""
        first, limit = tasks[0], self.limits[1]
        own = lowest = highest = self._cost_of(first)
        chosen = {first}
        for task in sorted(tasks[1:], key=lambda task: abs(self._cost_of(task) - own)):
            if len(chosen) == room:
                break
            cost = self._cost_of(task)
            low, high = min(lowest, cost), max(highest, cost)
            if high <= MOST_PADDING * low and (len(chosen) + 1) * high <= limit:
                lowest, highest = low, high
                chosen.add(task)
        return chosen

    def _cost_of(self, task: Task) -> float:
        """Estimate the cost of *task*; all of which a full batch is cheap enough are alike."""
        size, limit = self.limits
        return max(task.body_bytes * (self._cost_per_byte or 1.0), limit / size)

    def fills(self, tasks: Iterable[Task]) -> bool:
        """Whether *tasks* together would fill a batch."""
        total, limit = 0.0, self.limits[1]
        for task in tasks:
            total += self._cost_of(task)
            if total >= limit:
                return True
        return False

    def learn(self, batch: Iterable[Task], cost: float) -> None:
        """Take into account that the inputs of *batch* did cost *cost* together."""
        size = sum(task.body_bytes for task in batch)
        if size and cost:
            known, found = self._cost_per_byte, cost / size
            self._cost_per_byte = known + NEWS * (found - known) if known else found


def costs_of(row: ModelRow, known: BatchCosts | None) -> BatchCosts | None:
    """Return the costs of the model of *row*; ``None`` if its inputs have none.

    :param known: those before a change of the row, which are kept if the limits are the same.
    """
    if not row.max_batch_cost:
        return None
    limits = row.max_batch_size, row.max_batch_cost
    return known if known is not None and known.limits == limits else BatchCosts(*limits)

# SPDX-License-Identifier: Apache-2.0
"""The decision to take a task: can the model answer, and is there room to wait?"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import NotReady, PoisonRequest, QueueFull, ServekitError
from servekit.frontend.batching.retry import PoisonList
from servekit.frontend.batching.throughput import Throughput, whole_seconds

if TYPE_CHECKING:
    from servekit.frontend.batching.queue import TaskQueue
    from servekit.frontend.batching.task import Task
    from servekit.ipc.table import ModelRow

__all__ = ["Admission"]


class Admission:
    """Decides for one model. A refusal says when to try again."""

    __slots__ = ("_next_tries", "_queue", "is_open", "poison", "throughput")

    def __init__(self, queue: TaskQueue) -> None:
        """Refuse everything that would wait in *queue*, until ``update``."""
        self._queue = queue
        self._next_tries: list[float] = []  #: ``monotonic``: when workers are started again
        self.is_open = False  #: there is a replica that answers, or one comes when it is asked for
        self.poison = PoisonList()
        self.throughput = Throughput()

    def update(self, row: ModelRow) -> None:
        """Take over what the routing table says now."""
        was_ready = row.interface is not None
        self.is_open = (
            row.is_asleep
            or row.is_awake
            or row.is_waking
            or (was_ready and any(each.state in ("starting", "backoff") for each in row.replicas))
        )
        self._next_tries = [replica.next_try for replica in row.replicas]

    def refusal(self, body_bytes: int) -> ServekitError | None:
        """Return why no task with a body of *body_bytes* is admitted; ``None`` if it may be."""
        if not self.is_open:
            return self.not_ready()
        return None if self._queue.has_room(body_bytes) else self.queue_full()

    def refusal_of_content(self, task: Task) -> ServekitError | None:
        """Return why *task* cannot be answered, whether there is room or not."""
        if not self.is_open:
            return self.not_ready()
        return PoisonRequest() if self.poison.has(task, task.arrived) else None

    def queue_full(self) -> QueueFull:
        """Return the refusal of a queue without room."""
        wait_s = self.throughput.seconds_for(len(self._queue), monotonic())
        return QueueFull(retry_after_s=wait_s)

    def not_ready(self) -> NotReady:
        """Return the refusal of a model without a replica."""
        now = monotonic()
        waits = [moment - now for moment in self._next_tries if moment > now]
        return NotReady(retry_after_s=whole_seconds(min(waits)) if waits else None)

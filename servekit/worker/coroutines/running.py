# SPDX-License-Identifier: Apache-2.0
"""One request that a task answers: until its client is gone, or its time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.worker.prediction.batch_result import EXPIRED, GONE

if TYPE_CHECKING:
    import asyncio

    from servekit.ipc.batches import Open, Part
    from servekit.worker.prediction.batch_result import Answered, BatchResult
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["RunningRequest"]


class RunningRequest:
    """Holds a slot until its task has ended, which may take a while after its cancellation."""

    __slots__ = ("channel", "item", "message", "task")

    task: asyncio.Task[Part | BatchResult]

    def __init__(self, channel: FrontEndChannel, message: Open, item: OpenItem) -> None:
        """*message* brought *item* by *channel*."""
        self.channel, self.message, self.item = channel, message, item

    @property
    def has_gone(self) -> bool:
        """Whether its client has disconnected."""
        cancelled = self.channel.shared.cancelled
        return cancelled is not None and cancelled.has(self.message.stream, self.message.place)

    def cancel_if_over(self, now: float) -> None:
        """Cancel the task, once, if nobody waits for its answer any more."""
        if not self.task.cancelling() and (self.item.deadline <= now or self.has_gone):
            self.task.cancel()

    @property
    def refusal(self) -> Answered:
        """The answer of a task that was cancelled."""
        return GONE if self.has_gone else EXPIRED

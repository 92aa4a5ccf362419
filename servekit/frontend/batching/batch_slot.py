# SPDX-License-Identifier: Apache-2.0
"""The one batch that a worker has at a time."""

from __future__ import annotations

from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded
from servekit.frontend.batching.batch_answers import BatchAnswers
from servekit.frontend.batching.liveness import overtime
from servekit.ipc.batches import Predict, Reply, Slab
from servekit.ipc.channel import ChannelClosed, FrameTooLarge

if TYPE_CHECKING:
    from servekit.frontend.batching.channel import Channel
    from servekit.frontend.batching.environment import SlotOwner
    from servekit.frontend.batching.liveness import TimeLimits
    from servekit.frontend.batching.queue import BatchFeed
    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.batching.task import Task
    from servekit.frontend.batching.tracer import SlotTracer
    from servekit.ipc.batches import ReplyMessage

__all__ = ["BatchSlot"]

ITEM_OF = attrgetter("item")
BODY_OF = attrgetter("body")


class BatchSlot:
    """Sends batches over one channel, one at a time."""

    __slots__ = (
        *("_answers", "_channel", "_feed", "_leases", "_number", "_replica", "_tracer"),
        *("sent_at", "tasks"),
    )

    def __init__(
        self,
        replica: SlotOwner,
        feed: BatchFeed,
        channel: Channel,
        samples: BatchSamples | None = None,
        tracer: SlotTracer | None = None,
    ) -> None:
        """Send tasks of *feed* for *replica*, nothing yet."""
        self._replica, self._feed, self._channel = replica, feed, channel
        self._leases, self._tracer = replica.leases, tracer
        self._answers = BatchAnswers(replica, channel, samples, tracer)
        self._number = 0
        self.tasks: list[Task] = []  #: the batch that the worker has
        self.sent_at = 0.0  #: ``monotonic``

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Send *tasks* as one batch. Only if the worker is idle.

        :return: those that do not fit: none.
        """
        self.tasks, self.sent_at = tasks, now
        self._number += 1
        items, leases = list(map(ITEM_OF, tasks)), self._leases
        returned: list[int] = []
        if leases.returned or Slab in map(type, map(BODY_OF, items)):
            returned = leases.lend(items)
        try:
            self._channel.send(Predict(self._number, items, returned))
        except FrameTooLarge:
            self._replica.close()
        return []

    def on_message(self, message: ReplyMessage) -> None:
        """Answer the batch; before that the worker gets its next one.

        :raises ChannelClosed: the message is malformed, or for another batch.
        """
        if type(message) is not Reply:
            self._replica.on_message(message)
            return
        replica, sent_at, batch = self._replica, self.sent_at, self._take(message)
        now = replica.life.heard_at = monotonic()
        if not (replica.is_retired or message.is_last):
            self._feed.add(self)
        self._answers.answer(batch, message, sent_at, now)
        if replica.is_retired:
            replica.retire()  # not before: the answers may lie in memory of the worker

    def _take(self, reply: Reply) -> list[Task]:
        """Return the tasks that *reply* answers, in its order; the worker is idle."""
        tasks = self.tasks
        if reply.batch != self._number or not tasks or len(reply.answers) != len(tasks):
            raise ChannelClosed("malformed answer from worker: it is for another batch")
        self.tasks = []
        if self._leases.lent:
            self._leases.end_all_but(reply.held)
        return tasks

    def cancel(self, task: Task) -> None:
        """Tell the worker that the client of *task* has disconnected, if it has the task."""
        if task in self.tasks:
            self._channel.cancelled.mark(self._number, self.tasks.index(task))

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline; the worker finishes the batch."""
        late = [task for task in self.tasks if task.deadline <= now and not task.is_done]
        if late and self._tracer is not None:
            self._tracer.note_loss(late, self.tasks, self._number, self.sent_at)
        for task in late:
            task.fail(DeadlineExceeded())

    def complaint(self, now: float, limits: TimeLimits) -> str:
        """Return what the worker does wrong; "" if nothing."""
        return overtime("predict", now - self.sent_at, limits.batch_s, limits)

    def lose(self) -> list[Task]:
        """The worker is lost: return the tasks that it had, to be tried again or answered."""
        tasks, self.tasks = self.tasks, []
        if tasks and self._tracer is not None:
            self._tracer.note_loss(tasks, tasks, self._number, self.sent_at)
        return tasks

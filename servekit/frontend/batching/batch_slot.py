# SPDX-License-Identifier: Apache-2.0
"""The one batch that a worker has at a time."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from servekit.errors import DeadlineExceeded
from servekit.ipc.batches import Predict
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from servekit.frontend.batching.channel import Channel
    from servekit.frontend.batching.leases import Leases
    from servekit.frontend.batching.replies import Lend
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Reply

__all__ = ["BatchSlot"]

ITEM_OF = attrgetter("item")


class BatchSlot:
    """Sends batches over one channel, one at a time."""

    __slots__ = ("_channel", "_leases", "_number", "has_room", "lend", "sent_at", "tasks")

    def __init__(self, channel: Channel, leases: Leases) -> None:
        """Send nothing yet."""
        self._channel, self._leases = channel, leases
        self.lend: Lend = partial(leases.borrow, channel)  #: returns the bytes of large answers
        self._number = 0
        self.tasks: list[Task] = []  #: the batch that the worker has
        self.has_room = True  #: the worker is idle
        self.sent_at = 0.0  #: ``monotonic``

    def send(self, tasks: list[Task], now: float) -> list[Task]:
        """Send *tasks* as one batch. Only if there is room.

        :return: those that do not fit: none.
        :raises FrameTooLarge: nothing was sent.
        """
        self.tasks, self.sent_at, self.has_room = tasks, now, False
        self._number += 1
        items = list(map(ITEM_OF, tasks))
        self._channel.send(Predict(self._number, items, self._leases.lend(items)))
        return []

    def take(self, reply: Reply) -> list[Task]:
        """Return the tasks that *reply* answers, in its order; the worker is idle.

        :raises ChannelClosed: it answers something else.
        """
        tasks = self.tasks
        if reply.batch != self._number or not tasks or len(reply.answers) != len(tasks):
            raise ChannelClosed("malformed answer from worker: it is for another batch")
        self.tasks, self.has_room = [], True
        self._leases.end_all_but(reply.held)
        return tasks

    def cancel(self, task: Task) -> None:
        """Tell the worker that the client of *task* has disconnected, if it has the task."""
        if task in self.tasks:
            self._channel.cancelled.mark(self._number, self.tasks.index(task))

    def sweep(self, now: float) -> None:
        """Answer 504 to tasks past their deadline; the worker finishes the batch."""
        for task in self.tasks:
            if task.deadline <= now:
                task.fail(DeadlineExceeded())

    def lose(self) -> list[Task]:
        """The worker is lost: return the tasks that it had, to be tried again or answered."""
        tasks, self.tasks = self.tasks, []
        return tasks

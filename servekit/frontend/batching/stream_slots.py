# SPDX-License-Identifier: Apache-2.0
"""The streams that one worker holds for us, each in a slot: a task leaves when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.batching.replies import fail_task
from servekit.frontend.batching.stream import StreamedAnswer
from servekit.ipc.batches import Open
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.batching.channel import Link
    from servekit.frontend.batching.leases import Loans
    from servekit.frontend.batching.task import Task
    from servekit.ipc.batches import Part

__all__ = ["Slots"]


class Slots:
    """Belongs to a ``Replica``, and to one worker of it."""

    def __init__(self, count: int, link: Link, loans: Loans) -> None:
        """All *count* are free."""
        self._link, self._loans = link, loans
        self._free = list(range(count))
        self._opened = 0
        self._streams: dict[int, tuple[StreamedAnswer, int]] = {}  #: with their places
        self.tasks: dict[Task, int] = {}  #: their streams

    @property
    def has_room(self) -> bool:
        """One more stream may begin."""
        return bool(self._free)

    def put(self, task: Task, now: float) -> None:
        """Hand *task* to the worker. Only if there is room."""
        self._opened += 1
        place = self._free.pop()
        self._streams[self._opened] = (StreamedAnswer(task, now), place)
        self.tasks[task] = self._opened
        self._loans.lend([task.item])
        returned, self._loans.returned = self._loans.returned, []
        self._link.send(Open(self._opened, place, task.item, task.until, returned))

    def take(self, parts: list[Part], now: float) -> None:
        """Pass on what one turn brought.

        :raises ChannelClosed: it is for a stream that there is not.
        """
        for part in parts:
            if part.stream not in self._streams:
                raise ChannelClosed("an output of another stream: the channel is in doubt")
            streamed, place = self._streams[part.stream]
            streamed.write(part, now)
            if part.end is not None:
                del self._streams[part.stream], self.tasks[streamed.task]
                self._free.append(place)
                streamed.end(part, now, lambda slab: self._loans.borrow(self._link, slab))

    def cancel(self, task: Task) -> None:
        """Let the worker know that nobody waits for *task* any more."""
        stream = self.tasks.get(task)
        if stream is not None:
            self._link.cancelled.mark(stream, self._streams[stream][1])

    def look(self, now: float) -> None:
        """Tell the worker of what was ended here; say to clients that their streams go on."""
        for streamed, _ in list(self._streams.values()):
            if streamed.task.is_done:
                self.cancel(streamed.task)
            else:
                streamed.keep_alive(now)

    def lose(self, error: ServekitError) -> None:
        """The worker is gone: end what it held with *error*."""
        streams, self._streams = self._streams, {}
        self.tasks = {}
        for streamed, _ in streams.values():
            streamed.forget()
            fail_task(streamed.task, error)

# SPDX-License-Identifier: Apache-2.0
"""Shared memory that crossed one channel: bodies lent to the worker, answers lent by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.frontend.batching.channel import Link
    from servekit.frontend.batching.task import Task
    from servekit.frontend.memory.body_arena import Bodies
    from servekit.ipc.batches import SentItem

__all__ = ["Loans"]


class Loans:
    """What either side may look at in the other's arena; belongs to a ``Replica``."""

    __slots__ = ("_bodies", "_lent", "_link", "returned")

    def __init__(self, bodies: Bodies) -> None:
        """Give to *bodies* what the worker looks at no more."""
        self._bodies = bodies
        self._lent: dict[int, Slab] = {}  #: bodies that the worker may look at, by offset
        self.returned: list[int] = []  #: answers that the worker may overwrite, by offset
        self._link: Link | None = None

    def begin(self, link: Link) -> None:
        """The worker at the other end of *link* has an arena of its own."""
        self._link, self.returned = link, []

    def close(self) -> None:
        """The channel is closed: let go of it, so that its shared memory goes at once."""
        self._link = None

    def lend(self, items: list[SentItem]) -> None:
        """The worker gets *items* to look at."""
        for item in items:
            if type(item.body) is Slab:
                self._lent[item.body.offset] = item.body

    def end(self, offsets: Iterable[int]) -> None:
        """The worker looks at these bodies no more."""
        for offset in offsets:
            slab = self._lent.pop(offset, None)
            if slab is not None:
                self._bodies.free(slab)

    def end_all_but(self, held: list[int]) -> None:
        """The worker looks at no other bodies than these."""
        if self._lent:
            self.end([offset for offset in self._lent if offset not in held])

    def end_all(self) -> None:
        """The process that could look at them is gone."""
        self.end(list(self._lent))

    def keep(self, tasks: list[Task]) -> None:
        """*tasks* go to another worker with their bodies; this one only reads, and is going."""
        for task in tasks:
            if type(task.item.body) is Slab:
                self._lent.pop(task.item.body.offset, None)

    def borrow(self, link: Link, slab: Slab) -> tuple[memoryview, Callable[[], None]]:
        """Return an answer's bytes, and what to call when the client has them.

        :raises ChannelClosed: it lies outside the worker's arena.
        """

        def release() -> None:
            if self._link is link:
                self.returned.append(slab.offset)

        return link.view(slab), release

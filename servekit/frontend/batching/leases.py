# SPDX-License-Identifier: Apache-2.0
"""Shared memory that the two ends of one channel lend each other: bodies, and large answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.frontend.batching.channel import Channel
    from servekit.frontend.batching.task import Task
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.ipc.batches import SentItem

__all__ = ["Leases"]


class Leases:
    """Belongs to one replica; outlives its channels, as a worker may outlive its channel."""

    __slots__ = ("_bodies", "_channel", "lent", "returned")

    def __init__(self, bodies: BodyArena) -> None:
        """Free bodies in *bodies* once the worker no longer reads them."""
        self._bodies = bodies
        self.lent: dict[int, Slab] = {}  #: bodies that the worker may read, by offset
        self.returned: list[int] = []  #: offsets of answers that the worker may overwrite
        self._channel: Channel | None = None

    def begin(self, channel: Channel) -> None:
        """Lend over *channel* from now on; the worker has its own arena."""
        self._channel, self.returned = channel, []

    def close(self) -> None:
        """The channel is closed: drop it, so that its shared memory goes at once."""
        self._channel = None

    def lend(self, items: list[SentItem]) -> list[int]:
        """Lend the bodies of *items*; return what ``take_returned`` does, for the same message."""
        slabs = [item.body for item in items if isinstance(item.body, Slab)]
        self.lent |= {slab.offset: slab for slab in slabs}
        return self.take_returned()

    def end(self, offsets: Iterable[int]) -> None:
        """The worker no longer reads these bodies."""
        for offset in offsets:
            slab = self.lent.pop(offset, None)
            if slab is not None:
                self._bodies.free(slab)

    def end_all_but(self, held: list[int]) -> None:
        """The worker reads no bodies but these."""
        self.end([offset for offset in self.lent if offset not in held])

    def end_all(self) -> None:
        """The worker process has ended."""
        self.end(list(self.lent))

    def move(self, tasks: list[Task]) -> None:
        """*tasks* go to another worker with their bodies; this one only reads, and is ending."""
        for task in tasks:
            if type(task.item.body) is Slab:
                self.lent.pop(task.item.body.offset, None)

    def borrow(self, channel: Channel, slab: Slab) -> tuple[memoryview, Callable[[], None]]:
        """Return the bytes of a large answer, and what to call when they have been sent.

        :raises ChannelClosed: it lies outside the worker's arena.
        """

        def release() -> None:
            if self._channel is channel:
                self.returned.append(slab.offset)

        return channel.view(slab), release

    def take_returned(self) -> list[int]:
        """Return the offsets of answers that the worker may overwrite, to tell it."""
        returned, self.returned = self.returned, []
        return returned

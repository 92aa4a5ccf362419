# SPDX-License-Identifier: Apache-2.0
"""Tells a busy worker which clients have disconnected, by numbers in shared memory.

A channel has a page or more of them, which the front-end writes and the worker reads: the
first is the last batch that lost a client, each other one the last batch that lost the
client of one place. So no mark is ever removed, marks of two batches cannot be confused,
and a look costs the worker no system call.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from servekit.ipc.arena import Arena, room_of
from servekit.ipc.arena_reader import ArenaReader
from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cancelled", "CancelledReader"]

NUMBER_BYTES = 8


class Cancelled:
    """The front-end's side."""

    __slots__ = ("_arena", "_marks")

    def __init__(self, places: int) -> None:
        """Make room for a batch of *places*."""
        size = room_of((places + 1) * NUMBER_BYTES)
        self._arena = Arena(size, "servekit-cancelled")
        self._marks = self._arena.view(Slab(0, size)).cast("Q")

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """Yield the descriptor of the memory, once, to be sent to the worker."""
        try:
            yield self._arena.descriptor
        finally:
            self._arena.close()  # the memory stays as long as it is mapped

    def mark(self, batch: int, place: int) -> None:
        """Mark the client of *place* in *batch* as disconnected."""
        if place + 1 < len(self._marks):  # a new table may allow longer batches
            self._marks[place + 1] = batch
            self._marks[0] = batch


class CancelledReader:
    """The worker's side."""

    __slots__ = ("_marks",)

    def __init__(self, descriptor: int) -> None:
        """Map *descriptor* and close it.

        :raises ChannelClosed: it is not an arena.
        """
        arena = ArenaReader(descriptor)
        self._marks = arena.view(Slab(0, arena.size)).cast("Q")

    def has_any(self, batch: int) -> bool:
        """Whether *batch* was the last to lose a client."""
        return self._marks[0] == batch

    def has(self, batch: int, place: int) -> bool:
        """Whether the client of *place* in *batch* has disconnected."""
        return place + 1 < len(self._marks) and self._marks[place + 1] == batch

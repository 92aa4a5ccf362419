# SPDX-License-Identifier: Apache-2.0
"""The reader's side of an arena: views of slabs, which may outlive the batch they came with."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import sys
from typing import TYPE_CHECKING

from servekit.ipc.arena import PAGE, map_memory, room_of
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from servekit.ipc.batches import Slab

__all__ = ["ArenaReader", "Look"]

MAP_NORESERVE = 0x4000  # mmap(2); Python names it from 3.12 on
UNSEEN = 2  #: references to an anchor that nothing else refers to: its ``Look`` and the call


class ArenaReader:
    """The reader's side of an arena whose descriptor came over a channel."""

    def __init__(self, descriptor: int, mapped: int | None = None) -> None:
        """Map *descriptor* read-only, and take it over.

        :param mapped: bytes that are not overflow; none of it is if this is not given.
        :raises ChannelClosed: it could shrink under us, or is no memfd.
        """
        self._file: int | None = descriptor
        try:
            if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK == 0:
                raise ChannelClosed("the arena of the peer is not sealed")
            self.size = os.fstat(descriptor).st_size
            self._mapped = self.size if mapped is None else min(self.size, mapped)
            # Private and never written: the same pages, and ctypes can anchor in it.
            flags, rights = mmap.MAP_PRIVATE | MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            self._map = map_memory(descriptor, self._mapped, flags=flags, prot=rights)
        except (OSError, ValueError) as error:  # a file of no bytes cannot be mapped
            self.close()
            raise ChannelClosed(f"the descriptor from the peer is not an arena: {error}") from error
        if self._mapped == self.size:
            self.close()

    def view(self, slab: Slab) -> memoryview:
        """Return the bytes of *slab*, read-only.

        :raises ChannelClosed: it lies outside the arena.
        """
        self._check(slab)
        end = slab.offset + slab.size
        if end <= self._mapped:
            return memoryview(self._map).toreadonly()[slab.offset : end]
        if not slab.size:
            return memoryview(b"")
        if self._file is None:
            raise ChannelClosed("the arena is closed")
        window = map_memory(self._file, slab.size, offset=slab.offset, prot=mmap.PROT_READ)
        return memoryview(window)  # the window goes with its last view

    def trim(self) -> None:
        """Give the mapped pages back; those that are looked at again come from the writer's."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Map no more of it; existing views stay valid."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def look(self, slab: Slab) -> Look:
        """Return a view of *slab* for code that may keep references to it.

        :raises ChannelClosed: it lies outside the arena.
        """
        self._check(slab)
        return Look(self._map, slab)

    def _check(self, slab: Slab) -> None:
        if slab.offset % PAGE or not 0 <= slab.size <= self.size - slab.offset or slab.offset < 0:
            raise ChannelClosed(f"the peer named a slab outside its arena: {slab}")


class Look:
    """A view of a slab that knows when the last array or view over it is gone."""

    __slots__ = ("_anchor", "view")

    def __init__(self, memory: mmap.mmap, slab: Slab) -> None:
        """Look at *slab* of *memory*."""
        # ctypes keeps every array type for ever: whole pages, so that there are few
        anchor = (ctypes.c_char * room_of(slab.size)).from_buffer(memory, slab.offset)
        self.view = memoryview(anchor).cast("B").toreadonly()[: slab.size]
        self._anchor = anchor

    def end(self) -> bool:
        """Release ``view``; return whether nothing else refers to the slab."""
        try:
            self.view.release()
        except BufferError:
            return False
        return sys.getrefcount(self._anchor) == UNSEEN

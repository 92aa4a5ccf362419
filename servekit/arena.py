# SPDX-License-Identifier: Apache-2.0
"""Shared memory for large bodies: one process writes an arena, others read it in place.

An arena is a memfd, sealed against shrinking, so a reader can never be faulted by its
writer. The writer hands its descriptor over once with the channel and names slabs by
offset and size from then on. It has no name in any file system: it is gone with the
last process that holds it.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import sys
from bisect import bisect_left

from servekit.channel import ChannelClosed
from servekit.messages import Slab

__all__ = ["Arena", "ArenaReader", "Look"]

PAGE = mmap.PAGESIZE
MAP_NORESERVE = 0x4000  # mmap(2); Python names it from 3.12 on
UNSEEN = 2  #: references to an anchor that only its ``Look`` and the asking itself hold
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def room_of(size: int) -> int:
    """Return the whole pages that hold *size* bytes."""
    return -(-max(size, 1) // PAGE) * PAGE


class Arena:
    """The writer's side: hands out slabs, lowest offset first, so that warm pages are reused."""

    def __init__(self, size: int, name: str = "servekit-arena") -> None:
        """Reserve addresses for *size* bytes; pages are taken when they are written.

        :param name: for whoever looks at the descriptors of a process.
        """
        self.size = max(PAGE, size // PAGE * PAGE)
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, self.size)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)
        self._map: mmap.mmap | None = None
        self._free: list[tuple[int, int]] = [(0, self.size)]  # offset, size; sorted, never adjacent
        self._taken: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        """No slab is taken."""
        return not self._taken

    def allocate(self, size: int) -> Slab | None:
        """Return a slab of *size* bytes, or ``None`` if there is no room now."""
        room = room_of(size)
        for place, (offset, free) in enumerate(self._free):
            if free >= room:
                rest = [(offset + room, free - room)] if free > room else []
                self._free[place : place + 1] = rest
                self._taken[offset] = room
                return Slab(offset, size)
        return None

    def free(self, slab: Slab) -> None:
        """Take *slab* back. Only when no reader looks at it any more."""
        offset, size = slab.offset, self._taken.pop(slab.offset)
        place = bisect_left(self._free, (offset, 0))
        if place < len(self._free) and self._free[place][0] == offset + size:
            size += self._free.pop(place)[1]
        if place and sum(self._free[place - 1]) == offset:
            place -= 1
            before = self._free.pop(place)
            offset, size = before[0], before[1] + size
        self._free.insert(place, (offset, size))

    def view(self, slab: Slab) -> memoryview:
        """Return the writable bytes of *slab*."""
        if self._map is None:
            self._map = mmap.mmap(self.descriptor, self.size)
        return memoryview(self._map)[slab.offset : slab.offset + slab.size]

    def trim(self) -> None:
        """Give the pages of an empty arena back to the kernel."""
        if self._map is not None and not self._taken:
            self._map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Let go of the memory; readers that have it mapped keep it."""
        os.close(self.descriptor)
        self._map = None


class ArenaReader:
    """The reader's side of an arena whose descriptor came over a channel."""

    def __init__(self, descriptor: int) -> None:
        """Map *descriptor* read-only and close it.

        :raises ChannelClosed: it could shrink under us, or is no memfd.
        """
        try:
            if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK == 0:
                raise ChannelClosed("the peer sent an arena that is not sealed")
            self.size = os.fstat(descriptor).st_size
            # Private and never written: the same pages, and ctypes can anchor in it.
            flags, rights = mmap.MAP_PRIVATE | MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            self._map = mmap.mmap(descriptor, self.size, flags=flags, prot=rights)
        except OSError as error:
            raise ChannelClosed(f"the peer sent no arena: {error}") from error
        finally:
            os.close(descriptor)

    def view(self, slab: Slab) -> memoryview:
        """Return the bytes of *slab*, read-only.

        :raises ChannelClosed: it lies outside the arena.
        """
        self._check(slab)
        return memoryview(self._map).toreadonly()[slab.offset : slab.offset + slab.size]

    def look(self, slab: Slab) -> Look:
        """Return *slab* to be looked at by code that may keep what it sees.

        :raises ChannelClosed: it lies outside the arena.
        """
        self._check(slab)
        return Look(self._map, slab)

    def _check(self, slab: Slab) -> None:
        if slab.offset % PAGE or not 0 <= slab.size <= self.size - slab.offset or slab.offset < 0:
            raise ChannelClosed(f"the peer named a slab outside its arena: {slab}")


class Look:
    """A slab that somebody looks at; knows when the last array or view over it is gone."""

    __slots__ = ("_anchor", "view")

    def __init__(self, memory: mmap.mmap, slab: Slab) -> None:
        """Look at *slab* of *memory*."""
        # ctypes keeps every array type for ever: whole pages, so that there are few
        anchor = (ctypes.c_char * room_of(slab.size)).from_buffer(memory, slab.offset)
        self.view = memoryview(anchor).cast("B").toreadonly()[: slab.size]
        self._anchor = anchor

    def end(self) -> bool:
        """Give up ``view``; return whether nobody else looks any more."""
        try:
            self.view.release()
        except BufferError:
            return False
        return sys.getrefcount(self._anchor) == UNSEEN

# SPDX-License-Identifier: Apache-2.0
"""Shared memory for large bodies: one process writes an arena, others read it in place.

An arena is a memfd, sealed against shrinking, so a reader can never be faulted by its
writer. The writer hands its descriptor over once with the channel and names slabs by
offset and size from then on. It has no name in any file system and ends with the last
process that holds it.

Both sides keep the first bytes of an arena mapped, where slabs use the same pages again
and again. An arena may have an overflow behind them, of any length: a slab in it takes
memory only while it is used, and is mapped only while it is read.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import weakref
from bisect import bisect_left
from typing import TYPE_CHECKING

from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["OVERFLOW_BYTES", "PAGE", "Arena", "Pieces", "map_memory", "room_of"]

PAGE = mmap.PAGESIZE
OVERFLOW_BYTES = 1 << 40  #: addresses in a file: they cost nothing
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


#: called with the bytes of each map before it is made, and with the negative number after it is
#: gone; a worker with limited address space raises its limit by them
on_map: Callable[[int], object] | None = None


def map_memory(descriptor: int, size: int, **how: int) -> mmap.mmap:
    """Map *size* bytes of *descriptor*."""
    if on_map is None:
        return mmap.mmap(descriptor, size, **how)
    on_map(size)
    try:
        found = mmap.mmap(descriptor, size, **how)
    except (OSError, ValueError):
        on_map(-size)
        raise
    weakref.finalize(found, on_map, -size).atexit = False
    return found


def room_of(size: int) -> int:
    """Return the whole pages that hold *size* bytes."""
    return -(-max(size, 1) // PAGE) * PAGE


class Pieces:
    """Bytes in several buffers, which are copied one after another."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Iterable[bytes | memoryview]) -> None:
        """Hold *buffers*, each of which is contiguous memory of any type.

        :raises TypeError: one is not.
        """
        self.buffers = [memoryview(buffer).cast("B") for buffer in buffers]
        self._size = sum(map(len, self.buffers))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)


class Arena:
    """The writer's side: hands out slabs, lowest offset first, so that warm pages are reused."""

    def __init__(self, size: int, name: str = "servekit-arena", *, overflow: int = 0) -> None:
        """Reserve addresses for *size* bytes; pages are taken when they are written.

        :param name: shown in the list of descriptors of a process.
        :param overflow: bytes that may lie behind the first *size*.
        """
        self.size = max(PAGE, size // PAGE * PAGE)  #: bytes of the part that is mapped
        total = self.size + overflow
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, total)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)
        self._map: mmap.mmap | None = None
        self._free: list[tuple[int, int]] = [(0, total)]  # offset, size; sorted, never adjacent
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
        """Take *slab* back. No reader may use it any more."""
        offset, size = slab.offset, self._taken.pop(slab.offset)
        if not self._is_mapped(slab):
            with map_memory(self.descriptor, size, offset=offset) as window:
                window.madvise(mmap.MADV_REMOVE)
        place = bisect_left(self._free, (offset, 0))
        if place < len(self._free) and self._free[place][0] == offset + size:
            size += self._free.pop(place)[1]
        if place and sum(self._free[place - 1]) == offset:
            place -= 1
            before = self._free.pop(place)
            offset, size = before[0], before[1] + size
        self._free.insert(place, (offset, size))

    def grow(self, slab: Slab, size: int) -> Slab | None:
        """Return *slab* with *size* bytes where it is, or ``None`` if another begins behind it."""
        end = slab.offset + self._taken[slab.offset]
        more = room_of(size) - self._taken[slab.offset]
        place = bisect_left(self._free, (end, 0))
        if place == len(self._free) or self._free[place][0] != end or self._free[place][1] < more:
            return None
        _, free = self._free[place]
        self._free[place : place + 1] = [(end + more, free - more)] if free > more else []
        self._taken[slab.offset] += more
        return Slab(slab.offset, size)

    def shrink(self, slab: Slab, size: int) -> Slab:
        """Return the first *size* bytes of *slab*; the pages behind them are free."""
        keeps, room = room_of(size), self._taken[slab.offset]
        if keeps < room:
            self._taken[slab.offset + keeps] = room - keeps
            self._taken[slab.offset] = keeps
            self.free(Slab(slab.offset + keeps, room - keeps))
        return Slab(slab.offset, size)

    def view(self, slab: Slab) -> memoryview:
        """Return the writable bytes of *slab*, which is not in the overflow."""
        if self._map is None:
            self._map = map_memory(self.descriptor, self.size)
        return memoryview(self._map)[slab.offset : slab.offset + slab.size]

    def write(self, slab: Slab, content: bytes | Pieces) -> None:
        """Fill *slab*, wherever it is, with *content*."""
        offset = slab.offset
        for piece in content.buffers if isinstance(content, Pieces) else (content,):
            self._write_at(offset, memoryview(piece))
            offset += len(piece)

    def _write_at(self, offset: int, content: memoryview) -> None:
        if offset + len(content) <= self.size:
            self.view(Slab(offset, len(content)))[:] = content
            return
        while content:  # without a mapping: the address space of a process may be limited
            written = os.pwrite(self.descriptor, content, offset)
            content, offset = content[written:], offset + written

    def _is_mapped(self, slab: Slab) -> bool:
        return slab.offset + slab.size <= self.size

    def trim(self) -> None:
        """Return the pages that no slab uses to the kernel."""
        if self._map is None:
            return
        for offset, size in self._free:
            if offset < self.size:
                self._map.madvise(mmap.MADV_REMOVE, offset, min(size, self.size - offset))

    def close(self) -> None:
        """Release the memory; readers that have it mapped keep it."""
        os.close(self.descriptor)
        self._map = None

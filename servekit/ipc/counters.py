# SPDX-License-Identifier: Apache-2.0
"""Counters of the front-ends, readable by all of them, in memory that outlives each of them.

The memory is a memfd that the supervisor holds, so it does not depend on a disk. Each
front-end has its own share, which no other process writes to; the first share has the
counts of front-ends that have exited. A share holds records: how long the description is and
how many numbers follow, the description (msgpack: key, gauges, filler), the numbers. Its first
eight bytes say where the last record ends. A record that is given back is used again for another
key: its numbers are zero while its description changes.

    share 0     front-ends that have exited: written by the process that forks them
    share 1     a front-end: written by itself, read by all
    ...
"""

from __future__ import annotations

import mmap
import os
from array import array
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import MsgspecError, msgpack

from servekit.ipc.metric_memory import END, HEADER, padded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Counters", "Key", "Share", "create_memory"]

Key = tuple[str, ...]

HEAD: Final = mmap.PAGESIZE  #: before the shares: a number that is odd while one is merged
SHARE: Final = 16 << 20  #: bytes of a share; pages are taken when they are written
TRIES: Final = 100  #: to read while shares are merged, which takes less than a millisecond
NUMBER: Final = Struct("=d")
FREE: Final = ("free",)  #: the key of a record that has been given back
BLOCK: Final = 128  #: descriptions take whole blocks, so that another key has room later

_decode = msgpack.Decoder(tuple[tuple[str, ...], tuple[int, ...], bytes]).decode


def create_memory() -> int:
    """Return the descriptor of memory in which nothing is counted yet."""
    descriptor = os.memfd_create("servekit-counters", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, HEAD + SHARE)
    return descriptor


class Record(NamedTuple):
    """Some numbers of one share."""

    key: Key
    gauges: tuple[int, ...]  #: places of numbers that end with the process that counts
    numbers: list[float]
    offset: int  #: where the numbers begin in the share


class Place(NamedTuple):
    """Where a record of one share lies."""

    start: int  #: offset of its description
    numbers: int  #: offset of its numbers
    size: int  #: how many numbers there are


class Share:
    """The counters of one process."""

    def __init__(self, descriptor: int, number: int) -> None:
        """Map share *number*; new records follow its last one."""
        self._map = mmap.mmap(descriptor, SHARE, offset=_offset(number))
        self._end = max(END.size, END.unpack_from(self._map)[0])
        self._places: dict[Key, Place] = {}  #: by key, those that were taken here
        self._free: list[Place] = []

    def take(self, key: Key, size: int, gauges: tuple[int, ...] = ()) -> memoryview[float]:
        """Return *size* numbers, all zero, under the name *key*; once for each key.

        If there is no room, only this process sees them.

        :param gauges: places of those that end with this process.
        """
        place = self._find_free(key, size, gauges) or self._append(key, size, gauges)
        if place is None:
            _complain(key)
            return memoryview(array("d", bytes(size * NUMBER.size)))
        self._places[key] = place
        return self._view(place)

    def give_back(self, key: Key) -> None:
        """Let another key have the record of *key*, whose numbers nobody changes any more."""
        place = self._places.pop(key, None)
        if place is not None:
            self._view(place)[:] = array("d", bytes(place.size * NUMBER.size))
            self._describe(place, _description(FREE, (), place.numbers - place.start))
            self._free.append(place)

    def _find_free(self, key: Key, size: int, gauges: tuple[int, ...]) -> Place | None:
        """Return a record that was given back and has room for *key*."""
        for place in self._free:
            described = _description(key, gauges, place.numbers - place.start)
            if place.size == size and described:
                self._free.remove(place)
                self._describe(place, described)
                return place
        return None

    def _append(self, key: Key, size: int, gauges: tuple[int, ...]) -> Place | None:
        """Return a new record behind the last one; ``None`` if there is no room."""
        needed = len(msgpack.encode((key, gauges, b"")))
        described = _description(key, gauges, -(-needed // BLOCK) * BLOCK)
        start = self._end + HEADER.size
        place = Place(start, start + len(described), size)
        end = place.numbers + size * NUMBER.size
        if end > SHARE:
            return None
        HEADER.pack_into(self._map, self._end, len(described), size)
        self._describe(place, described)
        END.pack_into(self._map, 0, end)
        self._end = end
        return place

    def _describe(self, place: Place, described: bytes) -> None:
        self._map[place.start : place.numbers] = described

    def _view(self, place: Place) -> memoryview[float]:
        end = place.numbers + place.size * NUMBER.size
        return memoryview(self._map)[place.numbers : end].cast("d")


class Counters:
    """All shares: read by any front-end, given out and merged by the process that forks them."""

    def __init__(self, descriptor: int) -> None:
        """Use the memory of *descriptor*, which stays open."""
        self.descriptor = descriptor
        self.last = 0  #: the share that was given last
        self._given: set[int] = set()

    # ------------------------------------------------------------ for any front-end

    def share(self, number: int) -> Share:
        """Return the share *number* for the one process that writes to it."""
        return Share(self.descriptor, number)

    def read(self, wanted: Callable[[Key], bool] | None = None) -> dict[Key, list[float]]:
        """Return the sums over all shares, of the keys that are *wanted*."""
        totals: dict[Key, list[float]] = {}
        for memory in self._copy_shares():
            for key, _, numbers, _ in _records(memory, wanted):
                so_far = totals.get(key)
                totals[key] = _sum(so_far, numbers) if so_far else numbers
        return totals

    def _copy_shares(self) -> list[bytes]:
        """Return the used part of each share, all from one moment between two merges."""
        for _ in range(TRIES):
            before = self._merges
            copies = [self._copy(number) for number in range(self._count)]
            if before % 2 == 0 and before == self._merges:
                break
        return copies

    # ------------------------------------------------------------ for the process that forks them

    def give(self) -> int:
        """Choose a share for the front-end that is forked next; return its number."""
        number = next(each for each in range(1, self._count + 1) if each not in self._given)
        os.ftruncate(self.descriptor, max(self._size, _offset(number + 1)))
        self._given.add(number)
        self.last = number
        return number

    def merge(self, number: int) -> None:
        """Add the counts of a front-end that has exited to the first share, and clear its own."""
        self._given.discard(number)
        first = self.share(0)
        own = {record.key: record for record in _records(self._copy(0))}
        self._merges |= 1
        for record in _records(self._copy(number)):
            numbers = [0.0 if i in record.gauges else n for i, n in enumerate(record.numbers)]
            known = own.get(record.key)
            if known is None:
                first.take(record.key, len(numbers))[:] = array("d", numbers)
            else:
                self._write(0, known.offset, _sum(known.numbers, numbers))
            self._write(number, record.offset, [0.0] * len(numbers))
        os.pwrite(self.descriptor, bytes(self._end(number)), _offset(number))
        self._merges += 1

    def merge_all(self) -> None:
        """Merge the shares of front-ends of an earlier parent."""
        for number in range(1, self._count):
            self.merge(number)

    # ------------------------------------------------------------ bytes

    @property
    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size

    @property
    def _count(self) -> int:
        return (self._size - HEAD) // SHARE

    @property
    def _merges(self) -> int:
        """How many merges have begun and ended."""
        merges: int = END.unpack(os.pread(self.descriptor, END.size, 0))[0]
        return merges

    @_merges.setter
    def _merges(self, number: int) -> None:
        os.pwrite(self.descriptor, END.pack(number), 0)

    def _end(self, number: int) -> int:
        """Return where the last record of a share ends; 0 if it never had one."""
        end: int = END.unpack(os.pread(self.descriptor, END.size, _offset(number)))[0]
        return end

    def _copy(self, number: int) -> bytes:
        """Return a share up to the end of its last record."""
        return os.pread(self.descriptor, self._end(number), _offset(number))

    def _write(self, number: int, offset: int, numbers: list[float]) -> None:
        os.pwrite(self.descriptor, array("d", numbers), _offset(number) + offset)


def _complain(key: Key) -> None:
    import logging  # the supervisor needs none

    text = "the memory for counters is full: %s is not shown"
    logging.getLogger("servekit.frontend").warning(text, " ".join(key))


def _description(key: Key, gauges: tuple[int, ...], size: int) -> bytes:
    """Return *key* and *gauges* as exactly *size* bytes; b"" if they do not fit."""
    missing = size - len(msgpack.encode((key, gauges, b"")))
    for filler in (missing, missing - 1):  # a long filler has a longer header
        if filler >= 0:
            described = msgpack.encode((key, gauges, bytes(filler)))
            if len(described) == size:
                return described
    return b""


def _records(share: bytes, wanted: Callable[[Key], bool] | None = None) -> Iterator[Record]:
    """Yield the records of *share* with a key that is *wanted*; ``None`` wants all of them."""
    memory = memoryview(share)
    offset = END.size
    while offset < len(memory):
        described, count = HEADER.unpack_from(memory, offset)
        start = offset + HEADER.size
        values = start + padded(described)
        offset = values + count * NUMBER.size
        try:
            key, gauges, _ = _decode(memory[start : start + described])
        except MsgspecError:  # its description is being replaced, and all of its numbers are zero
            continue
        if key != FREE and (wanted is None or wanted(key)):
            yield Record(key, gauges, list(memory[values:offset].cast("d")), values)


def _offset(number: int) -> int:
    return HEAD + number * SHARE


def _sum(some: list[float], more: list[float]) -> list[float]:
    return [a + b for a, b in zip(some, more, strict=True)]

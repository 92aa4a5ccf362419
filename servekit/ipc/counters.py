# SPDX-License-Identifier: Apache-2.0
"""Counters of the front-ends, readable by all of them, in memory that outlives each of them.

The memory is a memfd that the supervisor holds, so it does not depend on a disk. Each
front-end has its own share, which no other process writes to; the first share has the
counts of front-ends that have exited. A share holds records: how long the key is and how
many numbers follow, the key (msgpack, padded), the numbers. Its first eight bytes say where
the last record ends.

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

from msgspec import msgpack

from servekit.ipc.metric_memory import END, HEADER, padded

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Counters", "Key", "Share", "create_memory"]

Key = tuple[str, ...]

HEAD: Final = mmap.PAGESIZE  #: before the shares: a number that is odd while one is merged
SHARE: Final = 16 << 20  #: bytes of a share; pages are taken when they are written
TRIES: Final = 100  #: to read while shares are merged, which takes less than a millisecond
NUMBER: Final = Struct("=d")

_decode = msgpack.Decoder(tuple[tuple[str, ...], tuple[int, ...]]).decode


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


class Share:
    """The counters of one process."""

    def __init__(self, descriptor: int, number: int) -> None:
        """Map share *number*; new records follow its last one."""
        self._map = mmap.mmap(descriptor, SHARE, offset=_offset(number))
        self._end = max(END.size, END.unpack_from(self._map)[0])

    def take(self, key: Key, size: int, gauges: tuple[int, ...] = ()) -> memoryview[float]:
        """Return *size* numbers, all zero, under the name *key*; once for each key.

        If there is no room, only this process sees them.

        :param gauges: places of those that end with this process.
        """
        described = msgpack.encode((key, gauges))
        start = self._end + HEADER.size
        numbers = start + padded(len(described))
        end = numbers + size * NUMBER.size
        if end > SHARE:
            _complain(key)
            return memoryview(array("d", bytes(size * NUMBER.size)))
        HEADER.pack_into(self._map, self._end, len(described), size)
        self._map[start : start + len(described)] = described
        END.pack_into(self._map, 0, end)
        self._end = end
        return memoryview(self._map)[numbers:end].cast("d")


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

    def read(self) -> dict[Key, list[float]]:
        """Return the sums over all shares."""
        totals: dict[Key, list[float]] = {}
        for memory in self._copy_shares():
            for key, _, numbers, _ in _records(memory):
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


def _records(share: bytes) -> Iterator[Record]:
    memory = memoryview(share)
    offset = END.size
    while offset < len(memory):
        described, count = HEADER.unpack_from(memory, offset)
        start = offset + HEADER.size
        values = start + padded(described)
        offset = values + count * NUMBER.size
        key, gauges = _decode(memory[start : start + described])
        yield Record(key, gauges, list(memory[values:offset].cast("d")), values)


def _offset(number: int) -> int:
    return HEAD + number * SHARE


def _sum(some: list[float], more: list[float]) -> list[float]:
    return [a + b for a, b in zip(some, more, strict=True)]

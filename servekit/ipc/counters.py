# SPDX-License-Identifier: Apache-2.0
"""Counters of the front-ends, readable by all of them, in memory that outlives each of them.

The memory is a memfd that the supervisor holds, so it does not depend on a disk. Each front-end has
its own share, which no other process writes to; the first share has the counts of front-ends that
have exited.

    share 0     front-ends that have exited: written by the process that forks them
    share 1     a front-end: written by itself, read by all
    ...
"""

from __future__ import annotations

import os
import time
from array import array
from typing import TYPE_CHECKING, Final

from servekit.ipc.counter_share import HEAD, SHARE, Key, Places, Share, offset_of, records
from servekit.ipc.metric_memory import END

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Counters", "create_memory"]

#: how long a reader waits for a merge, which takes less than a millisecond if nothing delays it
MERGE_S: Final = 1.0
PAUSE_S: Final = 0.0005  #: until the reader tries again


def create_memory() -> int:
    """Return the descriptor of memory in which nothing is counted yet."""
    descriptor = os.memfd_create("servekit-counters", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, HEAD + SHARE)
    return descriptor


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
        """Return the sums over all shares, and the latest moments, of *wanted* keys."""
        totals: dict[Key, list[float]] = {}
        for memory in self._copy_shares():
            for key, _, moments, numbers, _ in records(memory, wanted):
                so_far = totals.get(key)
                totals[key] = _add(so_far, numbers, moments) if so_far else numbers
        return totals

    def _copy_shares(self) -> list[bytes]:
        """Return the used part of each share, all from one moment between two merges.

        A merge that does not end is one whose process was killed: the next parent ends it.
        """
        deadline = time.monotonic() + MERGE_S
        while True:
            before = self._merges
            copies = [self._copy(number) for number in range(self._count)]
            if (before % 2 == 0 and before == self._merges) or time.monotonic() > deadline:
                return copies
            time.sleep(PAUSE_S)  # in a front-end gevent's: requests are answered meanwhile

    # ------------------------------------------------------------ for the process that forks them

    def give(self) -> int:
        """Choose a share for the front-end that is forked next; return its number."""
        number = next(each for each in range(1, self._count + 1) if each not in self._given)
        os.ftruncate(self.descriptor, max(self._size, offset_of(number + 1)))
        self._given.add(number)
        self.last = number
        return number

    def merge(self, number: int) -> None:
        """Add the counts of a front-end that has exited to the first share, and clear its own."""
        self._given.discard(number)
        first = self.share(0)
        own = {record.key: record for record in records(self._copy(0))}
        self._merges |= 1
        for record in records(self._copy(number)):
            numbers = [0.0 if i in record.gauges else n for i, n in enumerate(record.numbers)]
            known = own.get(record.key)
            if known is None:
                place = first.take(record.key, len(numbers), moments=record.moments)
                place[:] = array("d", numbers)
            else:
                self._write(0, known.offset, _add(known.numbers, numbers, record.moments))
            self._write(number, record.offset, [0.0] * len(numbers))
        os.pwrite(self.descriptor, bytes(self._end(number)), offset_of(number))
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
        end: int = END.unpack(os.pread(self.descriptor, END.size, offset_of(number)))[0]
        return end

    def _copy(self, number: int) -> bytes:
        """Return a share up to the end of its last record."""
        return os.pread(self.descriptor, self._end(number), offset_of(number))

    def _write(self, number: int, offset: int, numbers: list[float]) -> None:
        os.pwrite(self.descriptor, array("d", numbers), offset_of(number) + offset)


def _add(some: list[float], more: list[float], moments: Places) -> list[float]:
    """Return the sums of two records; of *moments*, the later ones."""
    found = [a + b for a, b in zip(some, more, strict=True)]
    for place in moments:
        found[place] = max(some[place], more[place])
    return found

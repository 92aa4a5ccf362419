# SPDX-License-Identifier: Apache-2.0
"""The counters of one process: a share of the memory that all front-ends read.

A share holds records: how long the description is and how many numbers follow, the description
(msgpack: key, gauges, moments, filler), the numbers. Its first eight bytes say where the last
record ends. A record that is given back is used again for another key: its numbers are zero while
its description changes.
"""

from __future__ import annotations

import mmap
from array import array
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import MsgspecError, msgpack

from servekit.ipc.metric_memory import END, HEADER, padded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HEAD", "SHARE", "Key", "Places", "Record", "Share", "offset_of", "records"]

Key = tuple[str, ...]
Places = tuple[int, ...]  #: where some numbers of a record are

HEAD: Final = mmap.PAGESIZE  #: before the shares: a number that is odd while one is merged
SHARE: Final = 16 << 20  #: bytes of a share; pages are taken when they are written
NUMBER: Final = Struct("=d")
FREE: Final = ("free",)  #: the key of a record that has been given back
BLOCK: Final = 128  #: descriptions take whole blocks, so that another key has room later

About = tuple[Key, Places, Places]  #: a record: its key, gauges and moments

_decode = msgpack.Decoder(tuple[Key, Places, Places, bytes]).decode


def offset_of(number: int) -> int:
    """Return where share *number* begins."""
    return HEAD + number * SHARE


class Record(NamedTuple):
    """Some numbers of one share."""

    key: Key
    gauges: Places  #: numbers that end with the process that counts
    moments: Places  #: numbers of which the latest of all processes counts, and not the sum
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
        self._map = mmap.mmap(descriptor, SHARE, offset=offset_of(number))
        self._end = max(END.size, END.unpack_from(self._map)[0])
        self._places: dict[Key, Place] = {}  #: by key, those that were taken here
        self._free: list[Place] = []

    def take(
        self, key: Key, size: int, gauges: Places = (), moments: Places = ()
    ) -> memoryview[float]:
        """Return *size* numbers, all zero, under the name *key*; once for each key.

        If there is no room, only this process sees them.

        :param gauges: places of those that end with this process.
        :param moments: places of those of which the latest of all processes counts, not the sum.
        """
        about = key, gauges, moments
        place = self._find_free(about, size) or self._append(about, size)
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
            self._describe(place, _description((FREE, (), ()), place.numbers - place.start))
            self._free.append(place)

    def _find_free(self, about: About, size: int) -> Place | None:
        """Return a record that was given back and has room for another description."""
        for place in self._free:
            described = _description(about, place.numbers - place.start)
            if place.size == size and described:
                self._free.remove(place)
                self._describe(place, described)
                return place
        return None

    def _append(self, about: About, size: int) -> Place | None:
        """Return a new record behind the last one; ``None`` if there is no room."""
        needed = len(msgpack.encode((*about, b"")))
        described = _description(about, -(-needed // BLOCK) * BLOCK)
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


def _complain(key: Key) -> None:
    import logging  # the supervisor needs none

    text = "the memory for counters is full: %s is not shown"
    logging.getLogger("servekit.frontend").warning(text, " ".join(key))


def _description(about: About, size: int) -> bytes:
    """Return *about* as exactly *size* bytes; b"" if it does not fit."""
    missing = size - len(msgpack.encode((*about, b"")))
    for filler in (missing, missing - 1):  # a long filler has a longer header
        if filler >= 0:
            described = msgpack.encode((*about, bytes(filler)))
            if len(described) == size:
                return described
    return b""


def records(share: bytes, wanted: Callable[[Key], bool] | None = None) -> Iterator[Record]:
    """Yield the records of *share* with a key that is *wanted*; ``None`` wants all of them."""
    memory = memoryview(share)
    offset = END.size
    while offset < len(memory):
        described, count = HEADER.unpack_from(memory, offset)
        start = offset + HEADER.size
        values = start + padded(described)
        offset = values + count * NUMBER.size
        try:
            key, gauges, moments, _ = _decode(memory[start : start + described])
        except MsgspecError:  # its description is being replaced, and all of its numbers are zero
            continue
        if key != FREE and (wanted is None or wanted(key)):
            numbers = list(memory[values:offset].cast("d"))
            yield Record(key, gauges, moments, numbers, values)

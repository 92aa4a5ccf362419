# SPDX-License-Identifier: Apache-2.0
"""The counters of one process: a share of the memory that all front-ends read.

A share holds records: how long the description is and how many numbers follow, the description
(msgpack: key, gauges, filler), the numbers. Its first eight bytes say where the last record ends. A
record that is given back is used again for another key: its numbers are zero while its description
changes.
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

__all__ = ["HEAD", "SHARE", "Key", "Record", "Share", "offset_of", "records"]

Key = tuple[str, ...]

HEAD: Final = mmap.PAGESIZE  #: before the shares: a number that is odd while one is merged
SHARE: Final = 16 << 20  #: bytes of a share; pages are taken when they are written
NUMBER: Final = Struct("=d")
FREE: Final = ("free",)  #: the key of a record that has been given back
BLOCK: Final = 128  #: descriptions take whole blocks, so that another key has room later

_decode = msgpack.Decoder(tuple[tuple[str, ...], tuple[int, ...], bytes]).decode


def offset_of(number: int) -> int:
    """Return where share *number* begins."""
    return HEAD + number * SHARE


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
        self._map = mmap.mmap(descriptor, SHARE, offset=offset_of(number))
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
            key, gauges, _ = _decode(memory[start : start + described])
        except MsgspecError:  # its description is being replaced, and all of its numbers are zero
            continue
        if key != FREE and (wanted is None or wanted(key)):
            yield Record(key, gauges, list(memory[values:offset].cast("d")), values)

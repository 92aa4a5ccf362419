# SPDX-License-Identifier: Apache-2.0
"""The layout of a service's own metrics in shared memory.

The memory holds records, each a series: how long its description is and how many doubles
it has, the description (msgpack, padded to eight bytes), the doubles. Its first eight bytes
say where the last record ends; a record is written before they are. So an update costs no
system call, and a front-end sees it while ``predict`` still runs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta, MsgspecError, Struct, msgpack

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["END", "HEADER", "NAME", "OTHER", "SIZE", "Series", "padded", "read_series"]

SIZE: Final = 256 * 1024
NAME: Final = "[a-z][a-z0-9_]{0,63}"
OTHER: Final = "other"  #: the label values of what is beyond the limit on series
END: Final = struct.Struct("=Q")
HEADER: Final = struct.Struct("=II")  #: bytes of the description, doubles

Name = Annotated[str, Meta(pattern=rf"^{NAME}\Z")]


def padded(size: int) -> int:
    """Return *size* rounded up to whole doubles."""
    return -(-size // 8) * 8


class Series(Struct, array_like=True):
    """One line of a metric, or the buckets of one histogram."""

    kind: Literal["counter", "gauge", "histogram"]
    name: Name
    help: str
    labels: dict[Name, str]
    bounds: list[float] = []


_decode = msgpack.Decoder(Series).decode


def read_series(memory: memoryview) -> Iterator[tuple[Series, list[float]]]:
    """Yield the series in *memory*; malformed content ends it."""
    (end,) = END.unpack_from(memory)
    end, offset = min(end, len(memory)), END.size
    while offset + HEADER.size <= end:
        described, count = HEADER.unpack_from(memory, offset)
        start = offset + HEADER.size
        values = start + padded(described)
        offset = values + count * 8
        if offset > end:
            return
        try:
            series = _decode(memory[start : start + described])
        except MsgspecError:
            return
        yield series, list(memory[values:offset].cast("d"))

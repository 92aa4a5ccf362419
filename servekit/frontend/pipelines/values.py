# SPDX-License-Identifier: Apache-2.0
"""Values between steps as bytes: cut out of lists and put together, never decoded.

A value is msgpack. So a list of values is a header and the values, one after the other,
and so is a mapping. A list that is to be cut up again says where: ``VALUES``.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING

from msgspec import msgpack

from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Sequence

    Content = bytes | memoryview

__all__ = ["as_list", "as_mapping", "as_values", "split"]

COUNT = Struct("<I")


def split(values: Content) -> list[memoryview]:
    """Return the values of a list that says where they are.

    :raises ChannelClosed: it does not: the peer did not write it.
    """
    view = memoryview(values)
    try:
        (count,) = COUNT.unpack_from(view)
        lengths = Struct(f"<{count}I").unpack_from(view, COUNT.size)
    except struct.error as error:
        raise ChannelClosed(f"the peer sent what is no list of values: {error}") from error
    parts, start = [], COUNT.size * (count + 1)
    for length in lengths:
        parts.append(view[start : start + length])
        start += length
    if start != len(view):
        raise ChannelClosed("the peer sent a list of values of another size than it says")
    return parts


def as_values(parts: Sequence[Content]) -> list[Content]:
    """Return the pieces of a list of *parts* that can be cut up again."""
    lengths = Struct(f"<{len(parts) + 1}I").pack(len(parts), *map(len, parts))
    return [lengths, *parts]


def as_list(values: Content) -> list[Content]:
    """Return the pieces of the value that is the list *values*."""
    parts = split(values)
    return [_header(len(parts), 0x90, 0xDC), *parts]


def as_mapping(names: Sequence[str], contents: Sequence[Sequence[Content]]) -> list[Content]:
    """Return the pieces of the value that is a mapping of *names* to *contents*."""
    pieces: list[Content] = [_header(len(names), 0x80, 0xDE)]
    for name, content in zip(names, contents, strict=True):
        pieces.append(msgpack.encode(name))
        pieces += content
    return pieces


def _header(count: int, short: int, long: int) -> bytes:
    """Return the first bytes of a list or a mapping of *count* in msgpack."""
    if count < 16:
        return bytes([short | count])
    if count < 1 << 16:
        return bytes([long]) + count.to_bytes(2, "big")
    return bytes([long + 1]) + count.to_bytes(4, "big")

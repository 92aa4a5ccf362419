# SPDX-License-Identifier: Apache-2.0
"""Values between steps as bytes: cut out of lists and put together, never decoded.

A value is msgpack. So a list of values is a header and the values, one after the other, and so is
a mapping. A list that will be cut up again begins with the lengths of its values.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING

import msgspec
from msgspec import msgpack

from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Content = bytes | memoryview

__all__ = ["Gathering", "StepValue", "as_list", "as_mapping", "as_values", "joined", "split"]

COUNT = Struct("<I")


class StepValue(msgspec.Struct, eq=False):
    """The body that the client sent, or the output of a step."""

    content: Content
    content_type: bytes
    release: Callable[[], None] | None = None  #: called when nobody needs ``content`` any more
    uses: int = 0  #: nodes that have yet to get it

    def use(self) -> None:
        """One node less needs it."""
        self.uses -= 1
        if not self.uses:
            self.drop()

    def drop(self) -> None:
        """Nobody needs it."""
        release, self.release = self.release, None
        if release is not None:
            release()


class Gathering:
    """The outputs of the elements of a list, which come in any order."""

    def __init__(self, size: int, content_type: bytes) -> None:
        """Wait for *size* outputs; *content_type* is that of the list of them."""
        self._content_type = content_type
        self._values: list[StepValue | None] = [None] * size
        self._missing = size

    def put(self, at: int, value: StepValue) -> bool:
        """Put *value* in its place; return whether it was the last one."""
        self._values[at] = value
        self._missing -= 1
        return not self._missing

    def finish(self) -> StepValue:
        """Return the list, which can be cut up again."""
        pieces = as_values([value.content for value in self._values if value is not None])
        content = b"".join(pieces)
        self.drop()
        return StepValue(content, self._content_type)

    def drop(self) -> None:
        """Nobody needs the outputs any more."""
        for value in self._values:
            if value is not None:
                value.drop()


def joined(names: Sequence[str], values: Sequence[StepValue], several: bytes) -> list[Content]:
    """Return the pieces of the mapping of *names* to *values*.

    Without names there is one value, which is returned unchanged.

    :param several: content type of values that are lists which can be cut up.
    """
    if not names:
        return [values[0].content]
    contents = [
        as_list(value.content) if value.content_type == several else [value.content]
        for value in values
    ]
    return as_mapping(names, contents)


def split(values: Content) -> list[memoryview]:
    """Return the values of a list that begins with their lengths.

    :raises ChannelClosed: it does not: no worker has written it.
    """
    view = memoryview(values)
    try:
        (count,) = COUNT.unpack_from(view)
        lengths = Struct(f"<{count}I").unpack_from(view, COUNT.size)
    except struct.error as error:
        raise ChannelClosed(f"malformed answer from worker: a list: {error}") from error
    parts, start = [], COUNT.size * (count + 1)
    for length in lengths:
        parts.append(view[start : start + length])
        start += length
    if start != len(view):
        raise ChannelClosed("malformed answer from worker: a list of another size than it says")
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

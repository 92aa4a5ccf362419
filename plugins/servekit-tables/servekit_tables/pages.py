# SPDX-License-Identifier: Apache-2.0
"""How much memory the pages of a Parquet file take once they are unpacked.

The metadata at the end of a file may say anything. A page has a header, beyond whose size it is
not unpacked: a struct of Thrift's compact protocol, read here as far as that needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["unpacked_bytes"]

#: fields of a page header
UNPACKED, PACKED = 2, 3
#: types of the compact protocol
STOP, TRUE, FALSE, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, MAP, STRUCT = (
    *(0, 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 11, 12),
)
MAX_PAGES: Final = 1 << 17  #: each takes its time, however small it is
LONG: Final = 15  #: elements of a list from which on their number follows


def unpacked_bytes(body: bytes, chunks: Iterable[Any]) -> int:
    """Return the bytes of all pages of *chunks*, the columns in the row groups of *body*.

    :raises ValueError: a page is malformed, many chunks have the same ones, or there are more than
        ``MAX_PAGES``.
    """
    total = read = pages = 0
    for chunk in chunks:
        at = chunk.data_page_offset
        if chunk.has_dictionary_page:
            at = min(at, chunk.dictionary_page_offset or at)
        end = at + chunk.total_compressed_size
        while at < end:
            header, after = _struct(body, at)
            sizes = header.get(UNPACKED, -1), header.get(PACKED, -1)
            read, pages = read + after - at, pages + 1
            if pages > MAX_PAGES:
                raise ValueError(f"over {MAX_PAGES} pages")
            if min(sizes) < 0 or read > len(body):
                raise ValueError("a page has no size")
            total += sizes[0]
            at = after + sizes[1]
    return total


def _struct(body: bytes, at: int) -> tuple[dict[int, int], int]:
    """Return the integers of the struct at *at* by the numbers of their fields, and its end."""
    found: dict[int, int] = {}
    number = 0
    while (head := _byte(body, at)) & 15 != STOP:
        at, step, kind = at + 1, head >> 4, head & 15
        if step:
            number += step
        else:
            number, at = _integer(body, at)
        if kind in INTEGERS:
            found[number], at = _integer(body, at)
        else:
            at = _after(body, at, kind)
    return found, at + 1


def _after(body: bytes, at: int, kind: int) -> int:
    """Return where a value of *kind* ends that begins at *at*."""
    if kind in (TRUE, FALSE):
        return at
    if kind == STRUCT:
        return _struct(body, at)[1]
    if kind in INTEGERS:
        return _integer(body, at)[1]
    if kind == BINARY:
        size, at = _varint(body, at)
        return at + size
    if kind in LISTS:
        head = _byte(body, at)
        count, at = (head >> 4, at + 1) if head >> 4 < LONG else _varint(body, at + 1)
        if count > len(body) - at:  # each element takes a byte at least
            raise ValueError("a list in a header of a page is longer than the file")
        for _ in range(count):
            at = at + 1 if head & 15 in (TRUE, FALSE) else _after(body, at, head & 15)
        return at
    if kind in (BYTE, DOUBLE):
        return at + (1 if kind == BYTE else 8)
    raise ValueError(f"a header of a page has a field of the type {kind}")


def _integer(body: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(body, at)
    return value >> 1 ^ -(value & 1), at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := _byte(body, at)) > 127 and shift < 63:
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
    return value | byte << shift, at + 1


def _byte(body: bytes, at: int) -> int:
    if not 0 <= at < len(body):
        raise ValueError("a page lies outside of the file")
    return body[at]

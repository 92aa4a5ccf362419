# SPDX-License-Identifier: Apache-2.0
"""The bytes of HPACK to fields (RFC 7541), no further than a header section may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpack.exceptions import HPACKDecodingError, InvalidTableSizeError, OversizedHeaderListError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

if TYPE_CHECKING:
    from servekit.frontend.http2.hpack_encoder import Fields

__all__ = ["MAX_FIELDS", "FieldDecoder"]

MAX_FIELDS = 400  #: of one block; fewer are told that they are too many
MAX_RESIZES = 2  #: of the table, at the beginning of a block: the least and the last (4.2)
MAX_OCTETS = 4  #: of a number behind its prefix: it is at most 28 bits long
ENTRY_BYTES = 32  #: that a field counts more than its name and value (4.1)


class FieldDecoder:
    """Stands where hpack's own decoder does, which takes thousands of fields for a request."""

    def __init__(self, max_bytes: int) -> None:
        """Decode a list of *max_bytes* at most."""
        self._table = HeaderTable()
        self._max_bytes = max_bytes

    def decode(self, data: bytes, *, raw: bool = True) -> Fields:
        """Return the fields of the block *data*, always as they came.

        :raises OversizedHeaderListError: there are more than anybody asks with.
        :raises HPACKDecodingError: it is malformed.
        """
        assert raw
        found: Fields = []
        at = resizes = size = 0
        try:
            while at < len(data):
                if data[at] & 0xE0 == 0x20:
                    resizes += 1
                    if found or resizes > MAX_RESIZES:
                        raise HPACKDecodingError("table: resized out of place, or too often")
                    at = self._resize(data, at)
                    continue
                field, at = self._field(data, at)
                found.append(field)
                size += len(field[0]) + len(field[1]) + ENTRY_BYTES
                if size > self._max_bytes or len(found) > MAX_FIELDS:
                    raise OversizedHeaderListError(f"fields: {len(found)} of {size} bytes or more")
        except IndexError as error:
            raise HPACKDecodingError("the block ends early") from error
        return found

    def _resize(self, data: bytes, at: int) -> int:
        size, at = integer(data, at, 0x1F)
        if size > HeaderTable.DEFAULT_SIZE:
            raise InvalidTableSizeError(f"table: {size} bytes, limit {HeaderTable.DEFAULT_SIZE}")
        self._table.maxsize = size
        return at

    def _field(self, data: bytes, at: int) -> tuple[tuple[bytes, bytes], int]:
        """Return the field that begins at *at*, and where it ends."""
        first = data[at]
        if first & 0x80:
            place, at = integer(data, at, 0x7F)
            return self._table.get_by_index(place), at
        place, at = integer(data, at, 0x3F if first & 0x40 else 0x0F)
        if place:
            name = self._table.get_by_index(place)[0]
        else:
            name, at = string(data, at)
        value, at = string(data, at)
        if first & 0x40:
            self._table.add(name, value)
        return (name, value), at


def string(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the string that begins at *at*, and where it ends (RFC 7541 5.2)."""
    size, start = integer(data, at, 0x7F)
    end = start + size
    if end > len(data):
        raise HPACKDecodingError("a string ends behind its block")
    text = data[start:end]
    return (decode_huffman(text) if data[at] & 0x80 else text), end


def integer(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Return the number that begins at *at*, in a prefix of up to *most*, and where it ends."""
    number, at = data[at] & most, at + 1
    if number < most:
        return number, at
    for shift in range(0, 7 * MAX_OCTETS, 7):
        octet = data[at]
        at += 1
        number += (octet & 0x7F) << shift
        if octet < 0x80:
            return number, at
    raise HPACKDecodingError("a number is too large")

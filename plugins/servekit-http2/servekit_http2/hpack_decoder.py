# SPDX-License-Identifier: Apache-2.0
"""Decodes HPACK (RFC 7541), up to the limits of a header section."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpack.exceptions import HPACKDecodingError, InvalidTableSizeError, OversizedHeaderListError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

if TYPE_CHECKING:
    from servekit_http2.hpack_encoder import Fields

__all__ = ["MAX_FIELDS", "FieldDecoder"]

MAX_FIELDS = 400  #: in one block; up to here, too many fields get a 431
MAX_RESIZES = 2  #: of the table at the start of a block: the smallest and the last (4.2)
MAX_OCTETS = 4  #: of a number after its prefix: it has at most 28 bits
ENTRY_BYTES = 32  #: that a field counts besides its name and value (4.1)


class FieldDecoder:
    """Replaces hpack's decoder, which accepts thousands of fields in a request."""

    def __init__(self, max_bytes: int) -> None:
        """Decode lists of at most *max_bytes*."""
        self._table = HeaderTable()
        self._max_bytes = max_bytes

    def decode(self, data: bytes, *, raw: bool = True) -> Fields:
        """Return the fields of the block *data*, always as bytes.

        :raises OversizedHeaderListError: there are too many.
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
                        raise HPACKDecodingError("table: resized out of place, or too many times")
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
            index, at = integer(data, at, 0x7F)
            return self._table.get_by_index(index), at
        index, at = integer(data, at, 0x3F if first & 0x40 else 0x0F)
        if index:
            name = self._table.get_by_index(index)[0]
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
        raise HPACKDecodingError("a string ends after its block")
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

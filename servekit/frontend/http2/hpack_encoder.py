# SPDX-License-Identifier: Apache-2.0
"""The head of a response as fields, and those as the bytes of HPACK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpack.table import HeaderTable

from servekit.extension.http import NO_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension.http import HttpResponse

__all__ = ["CONTINUE", "FieldEncoder", "Fields", "fields_of"]

Fields = list[tuple[bytes, bytes]]

LITERAL, SECRET = 0x00, 0x10  #: kept in no table; by proxies neither (RFC 7541 6.2.2, 6.2.3)
SECRETS = frozenset((b"set-cookie", b"www-authenticate"))
TABLE_OF_NOTHING = b"\x20"  #: says how large a table we keep (RFC 7541 6.3)
PLACES = {name: place for place, (name, _) in reversed([*enumerate(HeaderTable.STATIC_TABLE, 1)])}
WHOLE = {field: bytes((0x80 | place,)) for place, field in enumerate(HeaderTable.STATIC_TABLE, 1)}


CONTINUE: Fields = [(b":status", b"100")]


def fields_of(response: HttpResponse, date: bytes) -> Fields:
    """Return ``:status`` and the header fields of *response*, which is sent at *date*."""
    fields = [(b":status", b"%d" % response.status), (b"date", date)]
    if response.media_type:
        fields.append((b"content-type", response.media_type.encode()))
    fields.append((b"x-request-id", response.request_id.encode("latin-1")))
    for name, value in response.fields:
        fields.append((name.lower().encode("latin-1"), value.encode("latin-1")))
    if response.timing:
        fields.append((b"server-timing", response.timing))
    if (length := response.content_length) != NO_LENGTH:
        fields.append((b"content-length", b"%d" % length))
    return fields


class FieldEncoder:
    """Stands where hpack's own encoder does.

    It names the fields that every HTTP/2 knows and spells out all others: the table that both
    sides could keep saves a few bytes of an answer, and costs more than all else about it.
    """

    def __init__(self) -> None:
        self._is_told = False

    @property
    def header_table_size(self) -> int:
        """How much a client has to remember of what we said."""
        return 0

    @header_table_size.setter
    def header_table_size(self, _size: int) -> None:
        """A client keeps less than it could: less than nothing there is none."""

    def encode(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the header block of *fields*."""
        pieces = [] if self._is_told else [TABLE_OF_NOTHING]
        self._is_told = True
        for field in fields:
            whole = WHOLE.get(field)
            if whole is not None:
                pieces.append(whole)
                continue
            name, value = field
            kind, place = SECRET if name in SECRETS else LITERAL, PLACES.get(name)
            if place is None:
                pieces += (bytes((kind,)), integer(0, 7, len(name)), name)
            else:
                pieces.append(integer(kind, 4, place))
            pieces += (integer(0, 7, len(value)), value)
        return b"".join(pieces)


def integer(kind: int, bits: int, number: int) -> bytes:
    """Return *number* behind the bits of *kind*, in a prefix of *bits* (RFC 7541 5.1)."""
    most = (1 << bits) - 1
    if number < most:
        return bytes((kind | number,))
    rest, pieces = number - most, [kind | most]
    while rest >= 0x80:
        pieces.append(0x80 | rest & 0x7F)
        rest >>= 7
    return bytes((*pieces, rest))

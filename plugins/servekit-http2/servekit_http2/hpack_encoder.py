# SPDX-License-Identifier: Apache-2.0
"""The head of a response as fields, and fields as the bytes of HPACK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpack.table import HeaderTable

from servekit.frontend.transport import NO_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension import HttpResponse

__all__ = ["CONTINUE", "FieldEncoder", "Fields", "fields_of"]

Fields = list[tuple[bytes, bytes]]

LITERAL, SECRET = 0x00, 0x10  #: not indexed; SECRET not by proxies either (RFC 7541 6.2.2, 6.2.3)
SECRETS = frozenset((b"set-cookie", b"www-authenticate"))
EMPTY_TABLE = b"\x20"  #: sets the size of the dynamic table (RFC 7541 6.3)
INDEXES = {name: at for at, (name, _) in reversed([*enumerate(HeaderTable.STATIC_TABLE, 1)])}
INDEXED = {field: bytes((0x80 | at,)) for at, field in enumerate(HeaderTable.STATIC_TABLE, 1)}


CONTINUE: Fields = [(b":status", b"100")]


def fields_of(response: HttpResponse, date: bytes) -> Fields:
    """Return ``:status`` and the header fields of *response*, which is sent at *date*."""
    fields = [(b":status", b"%d" % response.status), (b"date", date)]
    if response.media_type:
        fields.append((b"content-type", response.media_type.encode()))
    fields.append((b"x-request-id", response.request_id.encode("latin-1")))
    for name, value in response.fields:
        fields.append((name.lower().encode("latin-1"), value.encode("latin-1")))
    if response.model_version:
        fields.append((b"x-model-version", response.model_version))
    if response.timing:
        fields.append((b"server-timing", response.timing))
    if (length := response.content_length) != NO_LENGTH:
        fields.append((b"content-length", b"%d" % length))
    return fields


class FieldEncoder:
    """Replaces hpack's encoder: uses the static table, and spells out all other fields.

    A dynamic table would save a few bytes of a response, and cost more than the rest of it.
    """

    def __init__(self) -> None:
        """Set the size of the dynamic table to 0 in the first block."""
        self._has_set_size = False

    @property
    def header_table_size(self) -> int:
        """Size of the dynamic table, which is not used."""
        return 0

    @header_table_size.setter
    def header_table_size(self, _size: int) -> None:
        """Do nothing: the dynamic table is never used."""

    def encode(self, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the header block of *fields*."""
        pieces = [] if self._has_set_size else [EMPTY_TABLE]
        self._has_set_size = True
        for field in fields:
            indexed = INDEXED.get(field)
            if indexed is not None:
                pieces.append(indexed)
                continue
            name, value = field
            kind, index = SECRET if name in SECRETS else LITERAL, INDEXES.get(name)
            if index is None:
                pieces += (bytes((kind,)), integer(0, 7, len(name)), name)
            else:
                pieces.append(integer(kind, 4, index))
            pieces += (integer(0, 7, len(value)), value)
        return b"".join(pieces)


def integer(kind: int, bits: int, number: int) -> bytes:
    """Return *number* after the bits of *kind*, in a prefix of *bits* (RFC 7541 5.1)."""
    most = (1 << bits) - 1
    if number < most:
        return bytes((kind | number,))
    rest, pieces = number - most, [kind | most]
    while rest >= 0x80:
        pieces.append(0x80 | rest & 0x7F)
        rest >>= 7
    return bytes((*pieces, rest))

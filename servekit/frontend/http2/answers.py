# SPDX-License-Identifier: Apache-2.0
"""The head of an answer as HTTP/1.1 writes it, to the fields of a HEADERS frame."""

from __future__ import annotations

from hpack import HeaderTuple, NeverIndexedHeaderTuple

__all__ = ["fields_of"]

#: different each time, or a secret: in the table that both sides keep they are of no use
UNKEPT = frozenset((b"content-length", b"etag", b"server-timing", b"set-cookie", b"x-request-id"))


def fields_of(head: bytes) -> list[HeaderTuple]:
    """Return ``:status`` and the fields of *head*: a status line, and header lines."""
    status, *lines = head.split(b"\r\n")
    fields = [HeaderTuple(b":status", status[9:12])]
    for line in filter(None, lines):
        name, _, value = line.partition(b": ")
        name = name.lower()
        kind = NeverIndexedHeaderTuple if name in UNKEPT else HeaderTuple
        fields.append(kind(name, value))
    return fields

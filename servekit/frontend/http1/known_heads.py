# SPDX-License-Identifier: Apache-2.0
"""Header sections that have come before: most clients repeat theirs byte for byte.

A request that is one piece, with a known header section, needs no parser.
"""

from __future__ import annotations

from typing import NamedTuple

from servekit.extension.http import HttpRequest

__all__ = ["KnownHeads"]

MAX_KNOWN = 256
MAX_BYTES = 1024
END = b"\r\n\r\n"
#: fields of heads that are not kept: they need the parser, or are secrets
UNFIT = frozenset((b"authorization", b"cookie", b"expect", b"transfer-encoding", b"upgrade"))


class KnownHead(NamedTuple):
    """A parsed header section."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    body_bytes: int


class KnownHeads:
    """Shared by the connections of one listener."""

    __slots__ = ("_heads", "missed")

    def __init__(self) -> None:
        """Know none."""
        self._heads: dict[bytes, KnownHead] = {}
        self.missed = b""  #: header section that was not found last

    def find(self, data: bytes) -> HttpRequest | None:
        """Return the request if *data* is exactly one, with a header section that is known."""
        end = data.find(END) + len(END)
        head = data[:end]
        known = self._heads.get(head)
        if known is None or len(data) != end + known.body_bytes:
            self.missed = head
            return None
        headers = known.headers.copy()
        return HttpRequest(known.method, known.target, headers, data[end:], True, "1.1")

    def add(self, request: HttpRequest, size: int) -> None:
        """Remember the head that was missed last, if it and a body make up *request*.

        :param size: bytes of data that *request* came of.
        """
        head, headers, body = self.missed, request.headers, request.body
        if (
            UNFIT.isdisjoint(headers)
            and request.version == "1.1"
            and request.keeps_alive
            and isinstance(body, bytes)
            and len(head) + len(body) == size
            and len(head) <= MAX_BYTES
        ):
            if len(self._heads) >= MAX_KNOWN:
                self._heads.clear()
            known = KnownHead(request.method, request.target, headers.copy(), len(body))
            self._heads[head] = known

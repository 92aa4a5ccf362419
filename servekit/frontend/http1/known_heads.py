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

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        """Know none."""
        self._heads: dict[bytes, KnownHead] = {}

    def find(self, data: bytes) -> HttpRequest | None:
        """Return the request if *data* is exactly one, with a header section that is known."""
        end = data.find(END) + len(END)
        head = self._heads.get(data[:end])
        if head is None or len(data) != end + head.body_bytes:
            return None
        return HttpRequest(head.method, head.target, head.headers.copy(), data[end:], True, "1.1")

    def add(self, data: bytes, request: HttpRequest) -> None:
        """Remember the header section of *request*, if *data* is that request and nothing else."""
        headers, body, end = request.headers, request.body, data.find(END) + len(END)
        if (
            request.version != "1.1"
            or not request.keeps_alive
            or not isinstance(body, bytes)
            or end + len(body) != len(data)
            or end > MAX_BYTES
            or not UNFIT.isdisjoint(headers)
        ):
            return
        if len(self._heads) >= MAX_KNOWN:
            self._heads.clear()
        self._heads[data[:end]] = KnownHead(
            request.method, request.target, headers.copy(), len(body)
        )

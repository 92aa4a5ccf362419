# SPDX-License-Identifier: Apache-2.0
"""What pages of other origins may do (CORS, in the Fetch standard): nothing, unless set."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from servekit.frontend.exchange.response import status_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.frontend.http.request_builder import HttpRequest

__all__ = ["Cors"]

ANY = "*"
EXPOSED = b"Access-Control-Expose-Headers: X-Request-Id, Server-Timing, Retry-After, Location\r\n"
VARY = b"Vary: Origin\r\n"
NAMES = re.compile(rb"[A-Za-z0-9-]+(?:, ?[A-Za-z0-9-]+){0,63}")


class Cors:
    """Says to browsers whose pages may read answers.

    Credentials are never allowed: nothing here looks at cookies, and a page that holds a
    token sends it in a header of its own.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        """Allow *origins*; ``*`` allows every one."""
        self._is_for_all = ANY in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    def lines(self, headers: dict[bytes, bytes]) -> bytes:
        """Return the header lines of any answer to a request with *headers*."""
        origin = headers.get(b"origin")
        if self._is_for_all:
            return b"Access-Control-Allow-Origin: *\r\n" + EXPOSED if origin is not None else b""
        if origin not in self._origins:
            return VARY  # else a cache could give this answer to a page that may read it
        return b"Access-Control-Allow-Origin: %b\r\n%b%b" % (origin, EXPOSED, VARY)

    def preflight(self, request: HttpRequest) -> bytes | None:
        """Return status and header lines of the answer if *request* asks for permission."""
        headers = request.headers
        if request.method != b"OPTIONS" or b"access-control-request-method" not in headers:
            return None
        if not self._is_for_all and headers.get(b"origin") not in self._origins:
            return None  # the answer to a plain OPTIONS permits nothing
        lines = (
            b"Access-Control-Allow-Methods: GET, POST, DELETE\r\nAccess-Control-Max-Age: 600\r\n"
        )
        wanted = headers.get(b"access-control-request-headers", b"")
        if NAMES.fullmatch(wanted):
            lines += b"Access-Control-Allow-Headers: %b\r\n" % wanted
        return status_line(204) + lines

# SPDX-License-Identifier: Apache-2.0
"""Tells browsers which origins may read responses (CORS, in the Fetch standard)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from servekit.extension.http import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Proceed

    Fields = Sequence[tuple[str, str]]

__all__ = ["Cors"]

ANY: Final = "*"
ALLOW_ORIGIN: Final = "Access-Control-Allow-Origin"
EXPOSED: Final = (
    "Access-Control-Expose-Headers",
    "X-Request-Id, X-Model-Version, Server-Timing, Retry-After, Location",
)
VARY: Final = ("Vary", "Origin")
NAMES: Final = re.compile(rb"[A-Za-z0-9-]+(?:, ?[A-Za-z0-9-]+){0,63}")


class Cors:
    """Middleware that adds the fields of CORS, and answers preflight requests.

    Credentials are never allowed: the server does not use cookies, and a page that has a token
    sends it in ``Authorization``.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        """Allow *origins*; ``*`` allows every one."""
        self._is_for_all = ANY in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Answer a preflight request; add fields to the response to any other."""
        fields = self._fields(request.headers)
        if fields:
            exchange.add_filter(lambda response: _with(response, fields))
        permission = None if request.refusal is not None else self._permission(request)
        if permission is not None:
            exchange.respond(HttpResponse(204, request_id=request.request_id, fields=permission))
        else:
            proceed(exchange, request)

    def _fields(self, headers: dict[bytes, bytes]) -> Fields:
        """Return the fields of any response to a request with *headers*."""
        origin = headers.get(b"origin")
        if self._is_for_all:
            return [(ALLOW_ORIGIN, ANY), EXPOSED] if origin is not None else ()
        if origin is None or origin not in self._origins:
            return [VARY]  # else a cache could give this response to a page that may read it
        return [(ALLOW_ORIGIN, origin.decode("latin-1")), EXPOSED, VARY]

    def _permission(self, request: HttpRequest) -> Fields | None:
        """Return the fields of the response if *request* is a preflight of an allowed origin."""
        headers = request.headers
        if request.method != b"OPTIONS" or b"access-control-request-method" not in headers:
            return None
        if not self._is_for_all and headers.get(b"origin") not in self._origins:
            return None  # the response to a plain OPTIONS permits nothing
        fields = [
            ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
            ("Access-Control-Max-Age", "600"),
        ]
        wanted = headers.get(b"access-control-request-headers", b"")
        if NAMES.fullmatch(wanted):
            fields.append(("Access-Control-Allow-Headers", wanted.decode()))
        return fields


def _with(response: HttpResponse, fields: Fields) -> HttpResponse:
    response.fields = [*response.fields, *fields]
    return response

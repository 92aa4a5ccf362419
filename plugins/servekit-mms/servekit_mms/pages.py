# SPDX-License-Identifier: Apache-2.0
"""``/`` as MMS 0.4 has it, the same as ``/ping``; and how often the description is asked for.

Runs in: front-end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from prometheus_client.core import CounterMetricFamily

from servekit.errors import NotReady
from servekit.extension import HttpResponse, error_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

    from servekit.extension import Exchange, HttpRequest, Proceed, Server

__all__ = ["Pages"]

JSON: Final = "application/json"
GETS: Final = (b"GET", b"HEAD")


class Pages:
    """Middleware for the pages of MMS."""

    def __init__(self, server: Server) -> None:
        """Answer for *server*."""
        self._server = server
        self._descriptions = 0
        server.add_metrics(self._metrics)

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Answer at ``/``; pass any other request on."""
        is_get = request.method in GETS and request.refusal is None
        path = request.target.partition(b"?")[0]
        if is_get and path == b"/":
            exchange.respond(self._health(request.request_id))
            return
        self._descriptions += is_get and path == b"/api-description"
        proceed(exchange, request)

    def _health(self, request_id: str) -> HttpResponse:
        reasons = self._server.why_not_ready()
        if not reasons:
            return HttpResponse(200, b'{"health":"healthy!"}', JSON, request_id)
        body = msgspec.json.encode({"health": "unhealthy!", "reasons": reasons})
        fields = error_fields(NotReady())
        return HttpResponse(NotReady.status, body, JSON, request_id, fields=fields)

    def _metrics(self) -> Iterable[Metric]:
        text = "requests for /api-description"
        yield CounterMetricFamily("servekit_mms_descriptions", text, self._descriptions)

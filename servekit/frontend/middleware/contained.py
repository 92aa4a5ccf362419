# SPDX-License-Identifier: Apache-2.0
"""Contains the middleware of plugins: a mistake costs only the request at which it happens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from servekit.errors import ServekitError

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.extension.middleware import Middleware, Proceed

__all__ = ["ContainedMiddleware"]

log = logging.getLogger("servekit.frontend")


class ContainedMiddleware:
    """Calls the middleware of a plugin, logs what it raises, and frees bodies that it keeps."""

    def __init__(self, plugin: str, middleware: Middleware) -> None:
        """Contain *middleware*; the log names *plugin*."""
        self._plugin = plugin
        self._middleware = middleware

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Pass *request* to the middleware; if that raises, the client gets a 500."""
        passage = Passage(request, proceed)
        exchange.add_filter(passage.note_response)
        exchange.add_observer(passage.note_end)
        try:
            self._middleware(exchange, request, passage)
        except Exception:
            where = f"plugin {self._plugin}: the middleware failed, request {request.request_id}"
            log.exception(where)
            if not passage.is_over:
                request.refusal = request.refusal or ServekitError()
                passage(exchange, request)


class Passage:
    """One request on its way through the middleware of a plugin, which calls this to proceed."""

    __slots__ = ("_proceed", "_request", "is_over")

    def __init__(self, request: HttpRequest, proceed: Proceed) -> None:
        self._request, self._proceed = request, proceed
        self.is_over = False  #: it was passed on or responded to

    def __call__(self, exchange: Exchange, request: HttpRequest) -> None:
        """Pass *request* on, unless its client has disconnected.

        :raises RuntimeError: it was passed on before.
        """
        if self.is_over:
            raise RuntimeError("a request was passed on twice, or after the response")
        if not exchange.is_closed:
            self.is_over = True
            self._proceed(exchange, request)

    def note_response(self, response: HttpResponse) -> HttpResponse:
        """Note that the client has its response."""
        if not self.is_over:
            self.is_over = True
            self._request.discard()
        return response

    def note_end(self, _status: int | None, _size: int) -> None:
        """Give the memory of the body back if the client left before anything else happened."""
        if not self.is_over:
            self._request.discard()

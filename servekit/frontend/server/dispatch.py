# SPDX-License-Identifier: Apache-2.0
"""Where a request goes: through the middleware, then to its model's route or to the Flask app."""

from __future__ import annotations

import os
import re
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import gevent

from servekit.errors import Unavailable
from servekit.extension.http import HttpResponse
from servekit.frontend.http.targets import ASTERISK, path_of
from servekit.frontend.routing.indirect import move_body
from servekit.frontend.server.wsgi import call_application
from servekit.web import may_read_body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware, Proceed
    from servekit.frontend.exchange.protocols import Find
    from servekit.frontend.exchange.time_slices import TimeSlices
    from servekit.frontend.http.client_address import ClientAddresses
    from servekit.frontend.memory.pressure import Pressure
    from servekit.frontend.routing.protocols import Protocols

__all__ = ["Dispatcher"]

APPLICATION_S: Final = 0.0005  #: typical time of the Flask app for a response
HEALTH: Final = (b"/ping", b"/ping/live", b"/ping/ready")  #: ends of paths that are never put off
SMALL_BYTES: Final = 4096  #: larger bodies would take memory while their requests are put off
REQUEST_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")  #: a client may choose one
ALLOWED: Final = (("Allow", "GET, HEAD, OPTIONS, POST"),)


class Dispatcher:
    """Answers the requests of one listener."""

    def __init__(
        self,
        *,
        find: Find,
        protocols: Protocols | None = None,
        application: Any,
        address: tuple[str, int],
        clients: ClientAddresses,
        middleware: Sequence[Middleware],
        decompress: Middleware,
        around: Callable[[Proceed], Proceed] | None = None,
        pressure: Pressure,
        slices: TimeSlices,
    ) -> None:
        """Ask *find* for routes, then *protocols*, and *application* for everything else.

        :param application: WSGI.
        :param address: host and port that the application believes to be at.
        :param clients: finds the addresses of clients.
        :param middleware: the first is the outermost.
        :param decompress: gets the requests in a content coding first; most have none.
        :param around: makes one more step, outside of all middleware.
        """
        self._find = find
        self._protocols = protocols
        self._application = application
        self._address, self._clients = address, clients
        self._prefix = os.urandom(6).hex()  #: unique prefix of request ids
        self._numbers = count(1)
        self._pressure = pressure
        self._slices = slices
        self._decompress = decompress
        self._outermost: Proceed = self._route
        for each in reversed(middleware):
            self._outermost = partial(_call, each, self._outermost)
        if around is not None:
            self._outermost = around(self._outermost)

    def reads_body(self, method: bytes, target: bytes, headers: dict[bytes, bytes]) -> bool:
        """Whether anybody may read the body of a request other than a prediction."""
        protocols = self._protocols
        if target == ASTERISK or (protocols and protocols.responds_to(method, target, headers)):
            return False
        path = path_of(target).decode("utf-8", "replace")
        return may_read_body(self._application, method.decode("latin-1"), path)

    def handle(self, exchange: Exchange, request: HttpRequest) -> None:
        """Answer *request*; it may have arrived only in part if it has a ``refusal``."""
        given = request.headers.get(b"x-request-id")
        if given is not None and REQUEST_ID.fullmatch(given):
            request.request_id = given.decode("latin-1")
        else:
            request.request_id = f"{self._prefix}-{next(self._numbers):x}"
        if b"content-encoding" in request.headers:
            self._decompress(exchange, request, self._outermost)
        else:
            self._outermost(exchange, request)

    def _route(self, exchange: Exchange, request: HttpRequest) -> None:
        if request.refusal is not None:
            self._refuse(exchange, request)
            return
        route = self._find(request.method, request.target, request.headers) or request.route
        if route is None:
            self._answer_other(exchange, request)
            return
        if request.route is not None:  # a version may have changed while the body arrived
            move_body(request, route)
        request.route = route
        exchange.model_version = route.version
        if self._pressure.is_full:
            request.refusal = Unavailable()
            self._refuse(exchange, request)
        elif route.middleware is not None:
            route.middleware(exchange, request, route.begin)
        else:
            route.begin(exchange, request)

    def _refuse(self, exchange: Exchange, request: HttpRequest) -> None:
        request.discard()
        assert request.refusal is not None
        if request.route is not None:
            exchange.model_version = request.route.version
        if self._protocols is not None:
            exchange.protocol = self._protocols.protocol_of(request)
        exchange.fail(request.refusal, request.request_id)

    def _answer_other(self, exchange: Exchange, request: HttpRequest) -> None:
        """Answer a request that is not a prediction."""
        if request.target == ASTERISK:
            exchange.respond(HttpResponse(204, request_id=request.request_id, fields=ALLOWED))
            return
        if self._protocols is not None and self._protocols.respond(exchange, request):
            return
        if request.version == "2":  # many come at a time
            self._slices.charge(APPLICATION_S)
        call = gevent.Greenlet(
            *(call_application, self._application, self._address, self._clients),
            *(exchange, request),
        )
        path = request.target.partition(b"?")[0]
        if path.endswith(HEALTH) or len(request.content) > SMALL_BYTES:
            call.start()
        else:  # some views take long, and many requests may come in one turn of the loop
            self._slices.defer(partial(_begin, call, exchange))


def _begin(call: gevent.Greenlet, exchange: Exchange) -> bool:
    """Run *call* until it waits for something, in the hub, if its client is still there."""
    if not exchange.is_closed:
        call.switch()
    return False


def _call(
    middleware: Middleware, proceed: Proceed, exchange: Exchange, request: HttpRequest
) -> None:
    middleware(exchange, request, proceed)

# SPDX-License-Identifier: Apache-2.0
"""Requests that come by the protocols of plugins, at paths that no model has."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from servekit.errors import ModelNotFound, RouteNotFound, ServekitError
from servekit.extension.http import HttpResponse
from servekit.extension.protocol import PredictionCall, RequestHead
from servekit.frontend.http.targets import path_of
from servekit.frontend.routing.indirect import move_body
from servekit.frontend.routing.protocol_routes import ProtocolRoute, ProvisionalRoute
from servekit.frontend.routing.router import KeptRoutes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.protocol import Protocol
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.routing.router import Router
    from servekit.service.identity import Identity

    #: parsed by plugins; the body of the request names the model
    Judge = Callable[[Exchange, HttpRequest, str], ServekitError | Identity | None]

    #: the protocol that answers a request, and its answer; ``NOBODY`` if there is no such protocol
    Outcome = tuple[Protocol | None, "ProtocolRoute | HttpResponse | ServekitError | None"]

__all__ = ["Protocols"]

QUOTED_CHARS = 80  #: characters of a name, in an error
MAX_KNOWN = 256  #: targets that are remembered
MAX_VALUES = 64  #: for each, the routes that are remembered
NOBODY = (None, None)

log = logging.getLogger("servekit.frontend")


class Protocols:
    """Asks the protocols whose paths a request has."""

    def __init__(
        self, protocols: Sequence[Protocol], router: Router, judge: Judge | None = None
    ) -> None:
        """Look up the models that they name in *router*.

        :param judge: asks plugins whether a client may predict with a model, if they decide that.
        """
        self._router, self._judge = router, judge
        ordered = sorted(protocols, key=lambda each: not each.is_selective)
        paths = [(path.encode(), each) for each in ordered for path in each.paths]
        # the longest that fits comes first
        self._below = sorted(
            (entry for entry in paths if entry[0].endswith(b"/")), key=lambda entry: -len(entry[0])
        )
        self._starts = tuple(start for start, _ in self._below)
        self._exact: dict[bytes, list[Protocol]] = {}
        for path, each in paths:
            if not path.endswith(b"/"):
                self._exact.setdefault(path, []).append(each)
        self._known: dict[bytes, Protocol] = {}  # the only protocol that a target can lead to

    def find(
        self, method: bytes, target: bytes, headers: dict[bytes, bytes]
    ) -> PredictionRoute | None:
        """Return the route of a prediction; ``None`` for any other request."""
        kept = self._router.kept.get(target) if method == b"POST" else None
        if kept is not None:
            route = kept.routes.get(tuple(map(headers.get, kept.names)))
            if route is not None:
                return route
        protocol = self._known.get(target)
        if protocol is None or self._router.has(target):
            _, outcome = self._ask(method, target, headers)
        else:
            _, outcome = self._answer(protocol, RequestHead(method, target, b"", headers)) or NOBODY
        if not isinstance(outcome, ProtocolRoute):
            return None
        names = outcome.protocol.call_headers
        if names is not None and method == b"POST" and path_of(target) == target:
            self._keep(target, names, headers, outcome)
        return outcome

    def _keep(
        self,
        target: bytes,
        names: Sequence[bytes],
        headers: dict[bytes, bytes],
        route: ProtocolRoute,
    ) -> None:
        found = self._router.kept
        if len(found) >= MAX_KNOWN:
            found.clear()
        routes = found.setdefault(target, KeptRoutes(names, {})).routes
        if len(routes) >= MAX_VALUES:
            routes.clear()
        routes[tuple(map(headers.get, names))] = route

    def respond(self, exchange: Exchange, request: HttpRequest) -> bool:
        """Respond to *request*, which is not a prediction; return whether a protocol does that."""
        protocol, outcome = self._ask(request.method, request.target, request.headers)
        exchange.protocol = protocol
        if isinstance(outcome, ServekitError):
            exchange.fail(outcome, request.request_id)
        elif isinstance(outcome, HttpResponse):
            outcome.request_id = request.request_id
            exchange.respond(outcome)
        return protocol is not None

    def responds_to(self, method: bytes, target: bytes, headers: dict[bytes, bytes]) -> bool:
        """Whether ``respond`` responds to such a request; it reads no body."""
        protocol, _ = self._ask(method, target, headers)
        return protocol is not None

    def protocol_of(self, request: HttpRequest) -> Protocol | None:
        """Return the protocol that decides the shape of errors for *request*.

        It is the one that answers the request. If none does, it is the first at its path that
        answers for all models.
        """
        protocol, _ = self._ask(request.method, request.target, request.headers)
        path = path_of(request.target)
        if protocol is not None or self._router.has(path):
            return protocol
        return next((each for each in self._at(path) if not each.is_selective), None)

    def _ask(self, method: bytes, target: bytes, headers: dict[bytes, bytes]) -> Outcome:
        path = path_of(target)
        if not (path in self._exact or path.startswith(self._starts)) or self._router.has(path):
            return NOBODY
        head = RequestHead(method, path, target.partition(b"?")[2], headers)
        protocols = [*self._at(path)]
        if len(protocols) == 1 and path == target:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[target] = protocols[0]
        for protocol in protocols:
            if (answer := self._answer(protocol, head)) is not None:
                return answer
        return NOBODY

    def _answer(self, protocol: Protocol, head: RequestHead) -> Outcome | None:
        """Return what *protocol* answers; ``None`` if it leaves the request to others."""
        try:
            found = protocol.find(head)
            return None if found is None else (protocol, self._route(protocol, found))
        except Exception:
            log.exception(
                "%s: find failed for %a", type(protocol).__name__, head.path[:QUOTED_CHARS]
            )
            return protocol, ServekitError()

    def _at(self, path: bytes) -> Iterator[Protocol]:
        """Yield the protocols whose paths *path* is among, those of the longest one first."""
        yield from self._exact.get(path, ())
        for start, protocol in self._below:
            if path.startswith(start):
                yield protocol

    def _route(
        self, protocol: Protocol, found: PredictionCall | HttpResponse | ServekitError
    ) -> ProtocolRoute | HttpResponse | ServekitError:
        if isinstance(found, PredictionCall):
            return self._resolve(protocol, found)
        if isinstance(found, HttpResponse | ServekitError):
            return found
        raise TypeError(f"find returned {type(found).__name__}")

    def _resolve(self, protocol: Protocol, found: PredictionCall) -> ProtocolRoute | ServekitError:
        route = self._router.find_call(found.model, found.endpoint, found.version)
        if route is None:
            return self._missing(found)
        if found.is_provisional:
            return ProvisionalRoute(protocol, route, found, self._decide)
        return ProtocolRoute(protocol, route, found)

    def _missing(self, call: PredictionCall) -> ServekitError:
        known = self._router.find_call(call.model)
        if known is None:
            return ModelNotFound(f"no model is called {call.model[:QUOTED_CHARS]}")
        if call.version and self._router.find_call(call.model, "", call.version) is None:
            return ModelNotFound(known.row.without_version(call.version[:QUOTED_CHARS]))
        return RouteNotFound(f"{call.model} has no endpoint {call.endpoint[:QUOTED_CHARS]}")

    def _decide(
        self, exchange: Exchange, request: HttpRequest, protocol: Protocol, found: PredictionCall
    ) -> ProtocolRoute | ServekitError:
        """Return the route of the model that the body names, to which the request is moved."""
        route = self._resolve(protocol, found)
        if isinstance(route, ServekitError):
            return route
        if self._judge is not None:
            verdict = self._judge(exchange, request, found.model)
            if isinstance(verdict, ServekitError):
                route.metrics.count_status(verdict.status)
                return verdict
            request.identity = verdict
        move_body(request, route)
        return route

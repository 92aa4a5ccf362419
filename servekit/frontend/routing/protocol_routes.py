# SPDX-License-Identifier: Apache-2.0
"""Routes of models, as requests reach them by the protocols of plugins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from servekit.errors import ServekitError
from servekit.ipc.batches import ProtocolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.extension.protocol import PredictionCall, Protocol
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.ipc.table import ModelRow

    #: returns the route of the model that the body of a request names, or why there is none
    Decide = Callable[
        [Exchange, HttpRequest, Protocol, PredictionCall], "ProtocolRoute | ServekitError"
    ]

__all__ = ["ProtocolRoute", "ProvisionalRoute"]

log = logging.getLogger("servekit.frontend")


class ProtocolRoute:
    """A route of a model, as one request reaches it by a protocol."""

    __slots__ = ("_route", "call", "protocol")

    is_provisional = False

    def __init__(self, protocol: Protocol, route: PredictionRoute, call: PredictionCall) -> None:
        """Lead to *route*."""
        self.protocol, self._route = protocol, route
        self.call = ProtocolCall(protocol.envelope, call.parameters, call.is_stream)

    @property
    def middleware(self) -> Middleware | None:
        """The middleware of the model's route."""
        return self._route.middleware

    @property
    def row(self) -> ModelRow:
        """The model."""
        return self._route.row

    @property
    def version(self) -> bytes:
        """The version of the model."""
        return self._route.version

    @property
    def bodies(self) -> BodyArena:
        """Where large request bodies are received."""
        return self._route.bodies

    @property
    def metrics(self) -> ModelMetrics:
        """Counters of the model."""
        return self._route.metrics

    @property
    def asked(self) -> Sequence[str]:
        """Headers and query parameters that its services want to see."""
        return self._route.asked

    @property
    def leaving(self) -> Sequence[Any]:
        """Replicas of an older version that still answer."""
        return self._route.leaving

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction for *request*, or respond at once."""
        exchange.protocol = self.protocol
        self._route.begin(exchange, request, call or self.call)


class ProvisionalRoute(ProtocolRoute):
    """The same for a request whose body may name another model."""

    __slots__ = ("_decide", "_found")

    is_provisional = True

    def __init__(
        self, protocol: Protocol, route: PredictionRoute, found: PredictionCall, decide: Decide
    ) -> None:
        """Lead to *route* until *decide* has been told the model."""
        super().__init__(protocol, route, found)
        self._decide, self._found = decide, found

    @property
    def middleware(self) -> None:
        """Nothing: each model has its own."""

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction with the model that the body names, or respond at once."""
        exchange.protocol = self.protocol
        route = self._decided(exchange, request)
        if isinstance(route, ServekitError):
            request.discard()
            exchange.model_version = b""
            exchange.fail(route, request.request_id)
            return
        exchange.model_version = route.version
        if route.middleware is not None:
            route.middleware(exchange, request, route.begin)
        else:
            route.begin(exchange, request, call)

    def _decided(self, exchange: Exchange, request: HttpRequest) -> ProtocolRoute | ServekitError:
        try:
            model = self.protocol.find_model(request.content)
        except ServekitError as error:
            return error
        except Exception:
            log.exception("%s: find_model failed", type(self.protocol).__name__)
            return ServekitError()
        found = replace(self._found, model=model, is_provisional=False)
        return self._decide(exchange, request, self.protocol, found)

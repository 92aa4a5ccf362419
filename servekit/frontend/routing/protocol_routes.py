# SPDX-License-Identifier: Apache-2.0
"""Routes of models, as requests reach them by the protocols of plugins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from servekit.errors import ServekitError
from servekit.frontend.routing.indirect import IndirectRoute, start
from servekit.ipc.batches import ProtocolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.protocol import PredictionCall, Protocol
    from servekit.frontend.exchange.protocols import PredictionRoute

    #: returns the route of the model that the body of a request names, or why there is none
    Decide = Callable[
        [Exchange, HttpRequest, Protocol, PredictionCall], "ProtocolRoute | ServekitError"
    ]

__all__ = ["ProtocolRoute", "ProvisionalRoute"]

NATIVE: Final = ProtocolCall("")

log = logging.getLogger("servekit.frontend")


class ProtocolRoute(IndirectRoute):
    """A route of a model, as one request reaches it by a protocol."""

    __slots__ = ("_call", "middleware", "protocol", "version")

    def __init__(self, protocol: Protocol, route: PredictionRoute, call: PredictionCall) -> None:
        """Lead to *route*."""
        super().__init__(route)
        self.protocol = protocol
        self.middleware = route.middleware  # type: ignore[misc]  # faster than a property
        self.version = route.version  # type: ignore[misc]  # as above
        if call.is_native:
            self._call = NATIVE
        else:
            self._call = ProtocolCall(protocol.envelope, call.parameters, call.is_stream)

    @property
    def call(self) -> ProtocolCall:
        """The call of the protocol that leads here."""
        return self._call

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction for *request*, or respond at once."""
        exchange.protocol = self.protocol
        self._route.begin(exchange, request, call or self._call)


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
        self.middleware = None  # type: ignore[misc]  # each model has its own

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
        start(route, exchange, request, call)

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

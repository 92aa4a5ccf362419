# SPDX-License-Identifier: Apache-2.0
"""A route that leads to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.ipc.batches import ProtocolCall
    from servekit.ipc.table import ModelRow

__all__ = ["IndirectRoute", "move_body", "start"]


class IndirectRoute:
    """Forwards to another route; subclasses override some members."""

    __slots__ = ("_route",)

    is_provisional = False

    def __init__(self, route: PredictionRoute) -> None:
        """Lead to *route*."""
        self._route = route

    @property
    def middleware(self) -> Middleware | None:
        """The middleware of the other route."""
        return self._route.middleware

    @property
    def call(self) -> ProtocolCall | None:
        """The call of a plugin's protocol that leads here, or ``None``."""
        return self._route.call

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
    def is_changing(self) -> bool:
        """Whether replicas of an older version still answer."""
        return self._route.is_changing

    @property
    def has_spare_room(self) -> bool:
        """Whether its queues are less than half full."""
        return self._route.has_spare_room

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction for *request*, or respond at once."""
        self._route.begin(exchange, request, call)


def move_body(request: HttpRequest, route: PredictionRoute) -> None:
    """Lay the body of *request* where workers of *route* can read it, and lead it there."""
    if route.bodies is not request.route.bodies:
        body = route.bodies.lay([request.content])
        request.discard()
        request.body = body
    request.route = route


def start(
    route: PredictionRoute,
    exchange: Exchange,
    request: HttpRequest,
    call: ProtocolCall | None = None,
) -> None:
    """Start the prediction for *request* at *route*, through the middleware of the route.

    :param call: the protocol of a plugin that the request comes by. Middleware would not pass it
        on, so a request with a call does not go through it.
    """
    if route.middleware is not None and call is None:
        route.middleware(exchange, request, route.begin)
    else:
        route.begin(exchange, request, call)

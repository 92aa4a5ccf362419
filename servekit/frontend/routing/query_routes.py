# SPDX-License-Identifier: Apache-2.0
"""Paths of models that answer ``GET``: the parameters of the query are the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from servekit.frontend.routing.indirect import IndirectRoute, start
from servekit.ipc.batches import QUERY_BODY

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.ipc.batches import ProtocolCall

__all__ = ["QueryRoute"]

CONTENT_TYPE: Final = QUERY_BODY.encode()


class QueryRoute(IndirectRoute):
    """Leads to the route of the same path for ``POST``."""

    __slots__ = ()

    middleware = None  #: the other route has it, and it sees the query as a body

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction with the query of *request* in place of a body."""
        request.discard()  # the body of a GET has no meaning (RFC 9110 9.3.1)
        request.body = request.target.partition(b"?")[2]
        request.headers = {**request.headers, b"content-type": CONTENT_TYPE}
        request.route = route = self._route
        start(route, exchange, request, call)

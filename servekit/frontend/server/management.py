# SPDX-License-Identifier: Apache-2.0
"""The management listeners: the same connections, another Flask app, and no predictions."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import gevent

from servekit.frontend.middleware.auth import TokenNeeded
from servekit.frontend.routing.router import Router
from servekit.frontend.server.wsgi import call_application

if TYPE_CHECKING:
    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.pipelines.pipeline import Pipeline
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.settings.tokens import Tokens

__all__ = ["Door"]


class Door:
    """Stands where the front-end stands, for the connections of one management listener."""

    cors = None

    def __init__(
        self, front_end: FrontEnd, application: Any, listener: socket.socket, tokens: Tokens
    ) -> None:
        """Serve *application*.

        Our own user alone can reach the socket in the run directory, so it needs no token.
        Any other listener does, one on loopback too: a page in a browser can reach it.
        """
        is_private = listener.family == socket.AF_UNIX
        self._front_end = front_end
        self.application = application
        self.address = ("localhost", 0) if is_private else listener.getsockname()[:2]
        self.access = None if is_private else TokenNeeded(tokens)
        self.router = Router()  # which knows no model

    def __getattr__(self, name: str) -> Any:
        """All else is the front-end's: its clock, its limits, its set of connections."""
        return getattr(self._front_end, name)

    def route(
        self,
        connection: Asker,
        request: HttpRequest,
        _batcher: Batcher | Pipeline | None = None,
    ) -> None:
        """Hand *request* to the Flask app."""
        request_id = self._front_end.next_request_id()
        if request.refusal is not None:
            connection.answer_problem(request.refusal, request_id)
        else:
            gevent.spawn(call_application, self.application, connection, request, request_id)

# SPDX-License-Identifier: Apache-2.0
"""Puts one front-end together: its core, middleware, plugins, Flask apps and listeners."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from servekit.errors import PluginError
from servekit.frontend.exchange.host import Host
from servekit.frontend.http.transport import Transport
from servekit.frontend.http1.transport import Http1
from servekit.frontend.middleware.access_log import AccessLogging
from servekit.frontend.middleware.auth import Access, TokenNeeded
from servekit.frontend.middleware.compression import Compression
from servekit.frontend.middleware.cors import Cors
from servekit.frontend.middleware.decompression import Decompression
from servekit.frontend.server.acceptor import Acceptor
from servekit.frontend.server.core import create_core
from servekit.frontend.server.dispatch import Dispatcher
from servekit.frontend.server.front_end import FrontEnd
from servekit.frontend.server.view import FrontEndView
from servekit.hookspecs import OBSERVER_HOOKS
from servekit.ipc.control import PluginHooks
from servekit.plugins import implemented
from servekit.web import create_app, create_management

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from servekit.extension.middleware import Middleware
    from servekit.extension.routes import Routes
    from servekit.frontend.exchange.protocols import Find, Route
    from servekit.frontend.middleware.access_log import AccessLog
    from servekit.frontend.middleware.codings import Coding
    from servekit.frontend.server.connection_shares import Shares
    from servekit.ipc.counters import Counters
    from servekit.settings import Settings
    from servekit.settings.tokens import Tokens

__all__ = ["Assembly", "Resources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the parent of the front-ends has read; read anew on SIGHUP."""

    hooks: Any  #: of all plugins, as pluggy calls them
    tokens: Tokens
    tls: ssl.SSLContext | None
    codings: Mapping[bytes, Coding]  #: of compression; none: it is off
    access_log: AccessLog | None
    shares: Shares | None  #: of the connections, if there are several front-ends


class Assembly:
    """One front-end, and what its listeners need. Made in the process that it serves in."""

    def __init__(
        self,
        settings: Settings,
        run_directory: Path,
        counters: Counters,
        address: tuple[str, int],
        resources: Resources,
    ) -> None:
        """Connect to the supervisor; accept nothing yet.

        :param address: host and port of the clients' listener.
        :raises PluginError: two plugins offer the same thing, or one offers nonsense.
        """
        self._resources = resources
        self._core = core = create_core(settings, run_directory, counters)
        tokens, hooks = resources.tokens, resources.hooks
        core.control.say(PluginHooks(implemented(hooks, OBSERVER_HOOKS)))
        self._view = FrontEndView(core, needs_token=bool(tokens.predict))
        self._transports = [
            Transport(offer) for offer in chain(*hooks.register_transports()) if settings.http2
        ]
        check_distinct(self._transports)
        self._routes: list[Routes] = list(chain(*hooks.register_routes(server=self._view)))
        added: list[Middleware] = list(chain(*hooks.register_middleware(server=self._view)))
        public = [each for each in self._routes if each.listener == "public"]
        self.application = create_app(self._view, public)
        authorize = hooks.authorize if hooks.authorize.get_hookimpls() else None
        protected = {path: name for each in public for path, name in each.protected.items()}
        find = core.routing.router.find
        guard = Access(tokens, authorize, find, protected) if tokens.predict or authorize else None
        dispatcher = self._dispatcher(find, self.application, address, [*self._own(), *added])
        http1 = self._http1(dispatcher, find, guard)
        if resources.tls is not None:
            resources.tls.set_alpn_protocols(list(http1.alpn))
        self.front_end = FrontEnd(
            core,
            Acceptor(http1, resources.shares),
            shares=resources.shares,
            access_log=resources.access_log,
            waits=self._view.waits,
        )

    def manage(self, listeners: Sequence[socket.socket]) -> None:
        """Serve management on *listeners*.

        Only our own user can reach the socket in the run directory, so it needs no token. Any
        other listener does, one on loopback too: a page in a browser can reach it.
        """
        routes = [each for each in self._routes if each.listener == "management"]
        show_metrics = self.application.view_functions["metrics"]
        application = create_management(self._view, show_metrics, routes)
        for listener in listeners:
            is_private = listener.family == socket.AF_UNIX
            address = ("localhost", 0) if is_private else listener.getsockname()[:2]
            guard = None if is_private else TokenNeeded(self._resources.tokens)
            dispatcher = self._dispatcher(find_nothing, application, address, self._basic())
            http1 = self._http1(dispatcher, find_nothing, guard)
            self.front_end.manage(Acceptor(http1), listener)

    def _basic(self) -> list[Middleware]:
        """Return the middleware of every listener."""
        log, codings = self._resources.access_log, self._resources.codings
        settings, core = self._core.settings, self._core
        found: list[Middleware] = []
        if log is not None:
            found.append(AccessLogging(log))
        if codings:
            find = core.routing.router.find
            found.append(Compression(codings, settings.compression_min))
            found.append(Decompression(codings, settings, find, core.pressure))
        return found

    def _own(self) -> list[Middleware]:
        """Return the server's own middleware of the clients' listener."""
        origins = self._core.settings.cors_origins
        return [*([Cors(origins)] if origins else []), *self._basic()]

    def _dispatcher(
        self, find: Find, application: Any, address: tuple[str, int], middleware: list[Middleware]
    ) -> Dispatcher:
        core = self._core
        return Dispatcher(
            find=find,
            application=application,
            address=address,
            middleware=middleware,
            request_ids=core.request_ids,
            pressure=core.pressure,
            slices=core.slices,
        )

    def _http1(self, dispatcher: Dispatcher, find: Find, guard: Any) -> Http1:
        core = self._core
        host = Host(
            settings=core.settings,
            loop=core.loop,
            date=core.date,
            connections=core.connections,
            pressure=core.pressure,
            slices=core.slices,
            request_ids=core.request_ids,
            tls=self._resources.tls,
            handle=dispatcher.handle,
            find=find,
            guard=guard,
        )
        return Http1(host, self._transports)


def find_nothing(_method: bytes, _target: bytes, _headers: dict[bytes, bytes]) -> Route | None:
    """No model answers at a listener of management."""
    return None


def check_distinct(transports: Sequence[Transport]) -> None:
    """Refuse two transports that a connection could not be told apart by."""
    for name in ("alpn", "preface"):
        found = [getattr(transport, name) for transport in transports]
        if len(set(found)) < len(found):
            raise PluginError(f"register_transports: two plugins offer the same {name}")

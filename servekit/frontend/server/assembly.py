# SPDX-License-Identifier: Apache-2.0
"""Puts one front-end together: its core, middleware, plugins, Flask apps and listeners."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from servekit.frontend.exchange.host import Host
from servekit.frontend.http.client_address import ClientAddresses
from servekit.frontend.http1.listener import Http1Listener
from servekit.frontend.middleware.access_log import AccessLogging
from servekit.frontend.middleware.auth import Access, TokenNeeded
from servekit.frontend.middleware.compression import Compression
from servekit.frontend.middleware.cors import Cors
from servekit.frontend.middleware.decompression import Decompression
from servekit.frontend.middleware.sampling import Sampling
from servekit.frontend.routing.protocols import Protocols
from servekit.frontend.server.acceptor import Acceptor
from servekit.frontend.server.contributions import gather
from servekit.frontend.server.core import create_core
from servekit.frontend.server.dispatch import Dispatcher
from servekit.frontend.server.front_end import FrontEnd
from servekit.frontend.server.view import FrontEndView
from servekit.hookspecs import OBSERVER_HOOKS
from servekit.ipc.control import WantedProcesses
from servekit.plugins import implemented
from servekit.web import RouteMetrics, create_app, create_management

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from msgspec import Struct

    from servekit.extension.middleware import Middleware
    from servekit.frontend.exchange.connection_shares import ConnectionShares
    from servekit.frontend.exchange.protocols import Find, PredictionRoute
    from servekit.frontend.middleware.access_log import AccessLog
    from servekit.frontend.middleware.codings import Coding
    from servekit.ipc.counters import Counters
    from servekit.plugins import PluginManager
    from servekit.settings import Settings
    from servekit.settings.tokens import Tokens

__all__ = ["NO_ADDRESS", "Assembly", "Resources"]

NO_ADDRESS = ("localhost", 0)  #: in place of that of a Unix socket


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Everything that the parent of the front-ends has read, and reads again on SIGHUP."""

    plugins: PluginManager
    plugin_settings: Mapping[str, Struct]  #: by plugin
    tokens: Tokens
    tls: ssl.SSLContext | None
    codings: Mapping[bytes, Coding]  #: for compression; empty: it is off
    access_log: AccessLog | None
    shares: ConnectionShares | None  #: ``None``: there is only one front-end


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

        :param address: host and port of the first listener of clients.
        :raises PluginError: a plugin offers something wrong, or what another one offers.
        """
        self._resources = resources
        self._clients = ClientAddresses(settings.trusted_proxies)
        observed = implemented(resources.plugins.hook, OBSERVER_HOOKS)
        self._core = core = create_core(
            settings, run_directory, counters, observed, resources.shares
        )
        self._view = FrontEndView(core, resources.tokens, resources.plugin_settings)
        self._added = gather(resources.plugins, self._view)
        if core.traces is not None:
            core.traces.share = self._added.sample_share
        self._metrics = RouteMetrics(self._view)
        self.application = create_app(self._view, self._metrics, self._added.public)
        url = _url(address, is_encrypted=resources.tls is not None)
        self._management = create_management(self._view, self._metrics, self._added.management, url)
        self._view.management = self._management
        middleware = [*self._middleware(is_public=True), *self._added.middleware]
        core.control.say(WantedProcesses(list(self._added.processes)))
        router, guard = core.routing.router, self._guard()
        protocols = self._protocols(guard)
        if protocols is not None:
            router.find_other = protocols.find
        dispatcher = self._dispatcher(router.find, self.application, address, middleware, protocols)
        http1 = self._http1(dispatcher, router.find, guard)
        if resources.tls is not None:
            resources.tls.set_alpn_protocols(list(http1.alpn))
        self.front_end = FrontEnd(
            core,
            Acceptor(http1),
            access_log=resources.access_log,
            waits=self._view.waits,
        )

    def manage(self, listeners: Sequence[socket.socket]) -> None:
        """Serve management on *listeners*.

        Only our own user can reach the socket in the run directory, so it needs no token. Any
        other listener does, one on loopback too: a page in a browser can reach it.
        """
        for listener in listeners:
            is_private = listener.family == socket.AF_UNIX
            middleware = self._middleware(is_public=False, is_logged=not is_private)
            address = NO_ADDRESS if is_private else listener.getsockname()[:2]
            guard = None if is_private else TokenNeeded(self._resources.tokens, self._clients)
            dispatcher = self._dispatcher(find_nothing, self._management, address, middleware)
            http1 = self._http1(dispatcher, find_nothing, guard)
            self.front_end.manage(Acceptor(http1), listener)

    def _middleware(self, *, is_public: bool, is_logged: bool = True) -> list[Middleware]:
        """Return the server's own middleware of a listener, the outermost first.

        Sampling is outside of everything, so that traces have all of it. The access log is outside
        of CORS, since preflight responses are logged, and inside of compression, since sizes are
        logged without it.

        :param is_logged: ``False`` for our own processes and commands, which ask every few seconds.
        """
        settings, core, resources = self._core.settings, self._core, self._resources
        found: list[Middleware] = []
        if is_public and core.traces is not None and core.traces.share is not None:
            found.append(Sampling(core.traces))
        if resources.codings:
            found.append(Compression(resources.codings, settings.compression_min))
        if resources.access_log is not None and is_logged:
            found.append(AccessLogging(resources.access_log, self._clients))
        if is_public and settings.cors_origins:
            found.append(Cors(settings.cors_origins))
        if resources.codings:
            find = core.routing.router.find if is_public else find_nothing
            found.append(Decompression(resources.codings, settings, find, core.pressure))
        return found

    def _guard(self) -> Access | None:
        """Return the guard of the clients' listener; ``None``: everybody may predict."""
        tokens, hook = self._resources.tokens, self._resources.plugins.hook.authorize
        authorize = hook if hook.get_hookimpls() else None
        if not tokens.predict and authorize is None:
            return None
        find = self._core.routing.router.find
        added = self._added
        paths = added.protected, added.managed, added.own_access
        return Access(tokens, authorize, find, *paths, self._clients)

    def _protocols(self, guard: Access | None) -> Protocols | None:
        """Return what finds the predictions of plugins' protocols; ``None`` without protocols."""
        if not self._added.protocols:
            return None
        judge = guard.judge_model if guard is not None else None
        return Protocols(self._added.protocols, self._core.routing.router, judge)

    def _dispatcher(
        self,
        find: Find,
        application: Any,
        address: tuple[str, int],
        middleware: list[Middleware],
        protocols: Protocols | None = None,
    ) -> Dispatcher:
        core = self._core
        return Dispatcher(
            find=find,
            protocols=protocols,
            application=application,
            address=address,
            clients=self._clients,
            middleware=middleware,
            pressure=core.pressure,
            slices=core.slices,
        )

    def _http1(self, dispatcher: Dispatcher, find: Find, guard: Any) -> Http1Listener:
        core = self._core
        host = Host(
            settings=core.settings,
            loop=core.loop,
            date=core.date,
            connections=core.connections,
            pressure=core.pressure,
            slices=core.slices,
            tls=self._resources.tls,
            handle=dispatcher.handle,
            find=find,
            guard=guard,
            traces=core.traces,
        )
        return Http1Listener(host, self._added.transports)


def find_nothing(
    _method: bytes, _target: bytes, _headers: dict[bytes, bytes]
) -> PredictionRoute | None:
    """No model answers at a listener of management."""
    return None


def _url(address: tuple[str, int], *, is_encrypted: bool) -> str:
    """Return where this machine reaches a listener at *address*; "" for a Unix socket."""
    if address == NO_ADDRESS:
        return ""
    host, port = address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound here
    scheme = "https" if is_encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

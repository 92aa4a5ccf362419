# SPDX-License-Identifier: Apache-2.0
"""Puts one front-end together: its core, middleware, plugins, Flask apps and listeners."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from servekit.frontend.exchange.host import Host
from servekit.frontend.http.client_address import ClientAddresses
from servekit.frontend.http1.listener import Http1Listener
from servekit.frontend.middleware.access_log import AccessLogging
from servekit.frontend.middleware.auth import Access, TokenNeeded
from servekit.frontend.middleware.compression import Compression
from servekit.frontend.middleware.cors import Cors
from servekit.frontend.middleware.decompression import Decompression
from servekit.frontend.middleware.sampling import sampling
from servekit.frontend.routing.protocols import Protocols
from servekit.frontend.server.acceptor import Acceptor
from servekit.frontend.server.contributions import gather
from servekit.frontend.server.core import create_core
from servekit.frontend.server.dispatch import Dispatcher
from servekit.frontend.server.front_end import FrontEnd
from servekit.frontend.server.own_listeners import refusing_http1
from servekit.frontend.server.view import FrontEndView
from servekit.hookspecs import OBSERVER_HOOKS
from servekit.ipc.control import WantedProcesses
from servekit.plugins import implemented
from servekit.web import RouteMetrics, create_app, create_management

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from pathlib import Path

    from servekit.extension.middleware import Middleware
    from servekit.frontend.exchange.protocols import Find, PredictionRoute
    from servekit.frontend.server.own_listeners import OwnListener
    from servekit.frontend.server.resources import Resources
    from servekit.ipc.counters import Counters
    from servekit.settings import Settings

__all__ = ["NO_ADDRESS", "Assembly"]

NO_ADDRESS = ("localhost", 0)  #: in place of that of a Unix socket


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
        self._view = self._new_view()
        self._added = gather(resources.plugins, self._view)
        if core.traces is not None and self._added.sampling is not None:
            core.traces.sample_by(self._added.sampling)
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
        own = resources.own_listeners
        self.front_end = FrontEnd(
            core,
            Acceptor(http1),
            own=[(self._own_acceptor(each, dispatcher, guard), each.socket) for each in own],
            access_log=resources.access_log,
            waits=self._view.waits,
        )

    def _new_view(self) -> FrontEndView:
        resources = self._resources
        return FrontEndView(
            self._core,
            resources.tokens,
            resources.plugin_settings,
            plugins_authorize=bool(resources.plugins.hook.authorize.get_hookimpls()),
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
            dispatcher = self._dispatcher(
                find_nothing, self._management, address, middleware, is_public=False
            )
            http1 = self._http1(dispatcher, find_nothing, guard)
            self.front_end.manage(Acceptor(http1), listener)

    def _middleware(self, *, is_public: bool, is_logged: bool = True) -> list[Middleware]:
        """Return the server's own middleware of a listener, the outermost first.

        The access log is outside of CORS, since preflight responses are logged, and inside of
        compression, since sizes are logged without it.

        :param is_logged: ``False`` for our own processes and commands, which ask every few seconds.
        """
        settings, resources = self._core.settings, self._resources
        found: list[Middleware] = []
        if resources.codings:
            found.append(Compression(resources.codings, settings.compression_min))
        if resources.access_log is not None and is_logged:
            found.append(AccessLogging(resources.access_log, self._clients))
        if is_public and settings.cors_origins:
            found.append(Cors(settings.cors_origins))
        return found

    def _guard(self) -> Access | None:
        """Return the guard of the clients' listener; ``None``: everybody may predict."""
        tokens, hook = self._resources.tokens, self._resources.plugins.hook.authorize
        if self._view.predictions_are_open:
            return None
        authorize = hook if hook.get_hookimpls() else None
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
        *,
        is_public: bool = True,
    ) -> Dispatcher:
        core, around = self._core, None
        if is_public and core.traces is not None and core.traces.sampler is not None:
            around = sampling(core.traces, core.traces.sampler)
        codings = self._resources.request_codings
        return Dispatcher(
            find=find,
            protocols=protocols,
            application=application,
            address=address,
            clients=self._clients,
            middleware=middleware,
            decompress=Decompression(codings, core.settings, find, core.pressure),
            around=around,
            pressure=core.pressure,
            slices=core.slices,
        )

    def _own_acceptor(self, own: OwnListener, dispatcher: Dispatcher, guard: Any) -> Acceptor:
        """Return what accepts from *own*; each of its connections begins as one of HTTP/1.1."""
        find, tls = self._core.routing.router.find, self._resources.own_tls
        host = self._host(dispatcher, find, guard, tls)
        host = replace(host, handle=refusing_http1(dispatcher.handle, own.title))
        http1 = Http1Listener(host, [own.transport])
        if tls is not None:
            tls.set_alpn_protocols(list(http1.alpn))
        return Acceptor(http1)

    def _http1(self, dispatcher: Dispatcher, find: Find, guard: Any) -> Http1Listener:
        tls = self._resources.tls
        host = self._host(dispatcher, find, guard, tls)
        listener = Http1Listener(host, self._added.transports)
        if tls is not None:
            tls.set_alpn_protocols(list(listener.alpn))
        return listener

    def _host(
        self, dispatcher: Dispatcher, find: Find, guard: Any, tls: ssl.SSLContext | None
    ) -> Host:
        core = self._core
        return Host(
            settings=core.settings,
            loop=core.loop,
            date=core.date,
            connections=core.connections,
            pressure=core.pressure,
            slices=core.slices,
            tls=tls,
            handle=dispatcher.handle,
            find=find,
            reads_body=dispatcher.reads_body,
            guard=guard,
            traces=core.traces,
        )


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

# SPDX-License-Identifier: Apache-2.0
"""Calls the hooks of the front-end, and checks what plugins return."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from servekit.errors import PluginError
from servekit.extension.processes import ProcessOffer
from servekit.extension.protocol import Protocol
from servekit.extension.routes import Routes
from servekit.extension.sampling import TraceSampling
from servekit.extension.transport import TransportOffer
from servekit.frontend.http1.listener import LazyTransport
from servekit.frontend.middleware.contained import ContainedMiddleware
from servekit.ipc.control import ProcessRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servekit.extension.middleware import Middleware
    from servekit.extension.server import Server
    from servekit.plugins import PluginManager
    from servekit.settings import Settings

__all__ = ["Contributions", "check_settings", "gather"]

log = logging.getLogger("servekit.frontend")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """Everything that plugins add to one front-end."""

    transports: Sequence[LazyTransport]
    public: Sequence[Routes]
    management: Sequence[Routes]
    middleware: Sequence[Middleware]  #: the outermost first
    protocols: Sequence[Protocol]
    processes: Sequence[ProcessRow]
    sampling: TraceSampling | None  #: ``None``: no predictions are sampled

    @property
    def protected(self) -> Mapping[str, Callable[[str], str]]:
        """As ``Routes.protected``, of all routes."""
        return {path: name for each in self.public for path, name in each.protected.items()}

    @property
    def managed(self) -> tuple[str, ...]:
        """As ``Routes.managed``, of all routes."""
        return tuple(path for each in self.public for path in each.managed)

    @property
    def own_access(self) -> tuple[str, ...]:
        """As ``Routes.own_access``, of all routes."""
        return tuple(path for each in self.public for path in each.own_access)


def check_settings(settings: Settings, plugins: PluginManager) -> None:
    """Refuse a setting whose plugin is missing; without HTTP/2, which is on by default, warn.

    :raises PluginError: says how to install it, or why it cannot be imported.
    """
    if settings.http2 and not plugins.has_plugin("http2"):
        log.warning("http2 is on, but servekit-http2 is missing: clients get HTTP/1.1 only")
    if not settings.jobs or plugins.has_plugin("jobs"):
        return
    broken = [each.error for each in plugins.installed if each.name == "jobs"]
    reason = broken[0] if broken else "pip install servekit-jobs"
    raise PluginError(f"jobs: needs the plugin servekit-jobs: {reason}")


def gather(plugins: PluginManager, server: Server) -> Contributions:
    """Call the hooks of the front-end, once for each process.

    :raises PluginError: a hook raised, or returned something else than it should.
    """
    routes = _offered(plugins, "register_routes", Routes, server=server)
    protocols = _protocols(plugins, server)
    described = [Routes(openapi=each.openapi) for each in protocols]
    return Contributions(
        transports=_transports(plugins, server.settings),
        public=[*(each for _, each in routes if each.listener == "public"), *described],
        management=[each for _, each in routes if each.listener == "management"],
        middleware=[
            ContainedMiddleware(plugin, each)
            for plugin, each in _offered(plugins, "register_middleware", None, server=server)
        ],
        protocols=protocols,
        processes=_processes(plugins, server),
        sampling=_sampling(plugins, server),
    )


def _offered(
    plugins: PluginManager, hook: str, kind: type | None, **arguments: object
) -> list[tuple[str, Any]]:
    """Return what all plugins return from *hook*, each with the name of its plugin.

    :param kind: class of each element; ``None``: it is a function.
    """
    found = []
    for plugin, result in plugins.contributions(hook, **arguments):
        try:
            elements = list(result)
        except TypeError as error:
            raise PluginError(f"{plugin}: {hook}: {error}") from error
        for each in elements:
            if not (callable(each) if kind is None else isinstance(each, kind)):
                wanted = "a function" if kind is None else kind.__name__
                raise PluginError(f"{plugin}: {hook}: expected {wanted}, got {each!r}")
            found.append((plugin, each))
    return found


def _protocols(plugins: PluginManager, server: Server) -> list[Protocol]:
    offers = _offered(plugins, "register_protocols", Protocol, server=server)
    owners: dict[str, str] = {}
    for plugin, protocol in offers:
        for path in protocol.paths:
            if not path.startswith("/") or path == "/":
                raise PluginError(f"{plugin}: register_protocols: {path!r} is not a path")
            if protocol.is_selective:
                continue
            other = owners.setdefault(path, plugin)
            if other != plugin:
                text = f"register_protocols: {other} and {plugin} both answer at {path}"
                raise PluginError(text)
    return [protocol for _, protocol in offers]


def _processes(plugins: PluginManager, server: Server) -> list[ProcessRow]:
    found: dict[str, ProcessRow] = {}
    for plugin, offer in _offered(plugins, "register_processes", ProcessOffer, server=server):
        name = f"{plugin}/{offer.name}"
        if name in found:
            raise PluginError(f"{plugin}: register_processes: two are called {offer.name!r}")
        arguments = [str(argument) for argument in offer.arguments]
        found[name] = ProcessRow(name, offer.module, arguments, offer.is_required)
    return list(found.values())


def _sampling(plugins: PluginManager, server: Server) -> TraceSampling | None:
    try:
        found = plugins.hook.trace_sampler(server=server)
    except Exception as error:
        raise PluginError(f"trace_sampler: {error}") from error
    if found is None:
        return None
    share = found.share if isinstance(found, TraceSampling) else found
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        raise PluginError(f"trace_sampler: {share!r} is not a number from 0 to 1")
    return found if isinstance(found, TraceSampling) else TraceSampling(share=share)


def _transports(plugins: PluginManager, settings: Settings) -> list[LazyTransport]:
    offered = _offered(plugins, "register_transports", TransportOffer)
    offers = [(plugin, offer) for plugin, offer in offered if not offer.address_setting]
    for name in ("alpn", "preface"):
        first: dict[object, str] = {}
        for plugin, offer in offers:
            other = first.setdefault(getattr(offer, name), plugin)
            if other != plugin:
                text = f"register_transports: {other} and {plugin} offer the same {name}"
                raise PluginError(text)
    is_on = {"h2": settings.http2}
    return [LazyTransport(offer) for _, offer in offers if is_on.get(offer.alpn, True)]

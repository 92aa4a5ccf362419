# SPDX-License-Identifier: Apache-2.0
"""The parts that the HTTP/1.1 connections of one listener share, and their handover to others.

Every client starts with HTTP/1.1; a preface may hand it over to the transport of a plugin.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import gevent

from servekit.frontend.exchange.protocols import Timed
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http1.exchange import ResponseEncoder
from servekit.frontend.http1.parser import HTTP2_PREFACE
from servekit.frontend.http1.reader import KnownHeads

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from servekit.extension.transport import TransportOffer
    from servekit.frontend.exchange.host import Host

__all__ = ["Connect", "Connected", "Http1Listener", "LazyTransport"]

OWN_ALPN = "http/1.1"


class Connected(Timed, Protocol):
    """A connection that speaks another version of HTTP."""

    def on_data(self, data: bytes) -> None:
        """Handle *data*, which was read before the connection was handed over."""


#: makes a connection of a socket whose preface has been read
Connect = Callable[["socket.socket | TlsSocket", Any, "Host"], Connected]


class LazyTransport:
    """A version of HTTP that a plugin offers, imported when the first client speaks it."""

    def __init__(self, offer: TransportOffer) -> None:
        """Import nothing yet."""
        self.alpn = offer.alpn
        self.preface = offer.preface
        self._target = offer.target
        self._connect: Connect | None = None

    def when_loaded(self, then: Callable[[Connect], None]) -> None:
        """Call *then* with what makes connections: now, or once it is imported."""
        if self._connect is not None:
            then(self._connect)
        else:
            gevent.spawn(self._load, then)

    def _load(self, then: Callable[[Connect], None]) -> None:
        """Import in a thread, so that the loop serves others meanwhile. Runs in a greenlet."""
        module, _, name = self._target.partition(":")
        found = gevent.get_hub().threadpool.apply(import_module, (module,))
        if self._connect is None:
            self._connect = getattr(found, name)
            gc.freeze()  # it stays, so the collector need not look at it
        then(self._connect)


class Http1Listener:
    """Shared by its connections."""

    def __init__(self, host: Host, transports: Sequence[LazyTransport]) -> None:
        """Let *host* answer the requests, and hand connections over to *transports*."""
        self.host = host
        self.encoder = ResponseEncoder(host.date)
        self.known_heads = KnownHeads()
        self._transports = {transport.alpn: transport for transport in transports}
        self._successor = next((each for each in transports if each.preface == HTTP2_PREFACE), None)
        #: protocol ids that TLS offers, the preferred one first
        self.alpn = (*self._transports, OWN_ALPN)

    def is_other(self, sock: socket.socket | TlsSocket) -> bool:
        """Whether the client of *sock* has agreed on another protocol by ALPN."""
        return isinstance(sock, TlsSocket) and sock.protocol in self._transports

    def successor(self, sock: socket.socket | TlsSocket) -> LazyTransport | None:
        """Return the transport that takes *sock* over, whose client has sent a preface."""
        found = self._successor
        if found is not None and isinstance(sock, TlsSocket) and sock.protocol != found.alpn:
            return None  # RFC 9113 3.2
        return found

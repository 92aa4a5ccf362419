# SPDX-License-Identifier: Apache-2.0
"""The parts that the HTTP/1.1 connections of one listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http1.exchange import ResponseEncoder
from servekit.frontend.http1.parser import HTTP2_PREFACE
from servekit.frontend.http1.reader import KnownHeads

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http1.handover import LazyTransport

__all__ = ["Http1Listener"]

OWN_ALPN = "http/1.1"


class Http1Listener:
    """Every client starts with HTTP/1.1; a preface may hand it over to another transport."""

    def __init__(self, host: Host, transports: Sequence[LazyTransport]) -> None:
        """Have *host* answer the requests, and hand connections over to *transports*."""
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

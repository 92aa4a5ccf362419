# SPDX-License-Identifier: Apache-2.0
"""What the HTTP/1.1 connections of one listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servekit.frontend.http1.connection import Connection
from servekit.frontend.http1.head import HeadWriter

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.http.transport import Transport

__all__ = ["Http1"]

OWN_ALPN = "http/1.1"


class Http1:
    """Makes connections. Every client starts with HTTP/1.1; a preface may hand it over."""

    def __init__(self, host: Host, transports: Sequence[Transport]) -> None:
        """Answer by *host*; hand connections over to *transports*."""
        self.host = host
        self.heads = HeadWriter(host.date)
        self.by_preface = {transport.preface: transport for transport in transports}
        self.others = frozenset(transport.alpn for transport in transports)
        #: protocol ids that TLS offers, the one it likes best first
        self.alpn = (*(transport.alpn for transport in transports), OWN_ALPN)

    def connect(self, sock: socket.socket | TlsSocket, peer: Any) -> None:
        """Serve the client of *sock*, which is non-blocking, at the address *peer*."""
        self.host.connections.add(Connection(sock, peer, self))

# SPDX-License-Identifier: Apache-2.0
"""The hook of HTTP/2."""

from typing import TYPE_CHECKING

from servekit.hookspecs import hookimpl

if TYPE_CHECKING:
    from servekit.extension import TransportOffer

__all__ = ["register_transports"]


@hookimpl
def register_transports() -> "list[TransportOffer]":
    """Offer HTTP/2 (RFC 9113)."""
    from servekit.extension import TransportOffer

    return [
        TransportOffer(
            alpn="h2",
            preface=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            target="servekit.frontend.http2.connection:Http2Connection",
        )
    ]

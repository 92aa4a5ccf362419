# SPDX-License-Identifier: Apache-2.0
"""The hooks of HTTP/2."""

from collections.abc import Sequence

from servekit import hookimpl
from servekit.extension import TransportOffer

__all__ = ["register_transports"]


@hookimpl
def register_transports() -> Sequence[TransportOffer]:
    """Offer HTTP/2."""
    return [
        TransportOffer(
            alpn="h2",
            preface=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            target="servekit_http2.connection:Http2Connection",
        )
    ]

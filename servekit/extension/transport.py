# SPDX-License-Identifier: Apache-2.0
"""Versions of HTTP besides 1.1, which plugins offer by ``register_transports``."""

from dataclasses import dataclass

__all__ = ["TransportOffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOffer:
    """How a connection is recognized, and the class that takes it over."""

    alpn: str  #: protocol id that TLS clients choose it by (RFC 7301): ``h2``
    preface: bytes  #: what a client sends first, in the clear and over TLS
    #: ``module:class``, imported when the first client connects. It is called with the socket, the
    #: client's address and the ``Host``; its ``on_data`` gets the bytes after the preface. See
    #: ``servekit.frontend.transport``
    target: str

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
    #: the setting of the plugin that holds ``HOST:PORT`` of a listener where nothing else is
    #: spoken; where it is empty, so is the offer. "": the listeners of all clients
    address_setting: str = ""
    title: str = ""  #: its name where its address is shown; "": as ``alpn``

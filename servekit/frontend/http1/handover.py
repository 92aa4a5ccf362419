# SPDX-License-Identifier: Apache-2.0
"""Hands connections over to the transports of plugins."""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import gevent

from servekit.frontend.exchange.protocols import Timed

if TYPE_CHECKING:
    import socket

    from servekit.extension.transport import TransportOffer
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.tls import TlsSocket

__all__ = ["Connect", "Connected", "LazyTransport"]


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

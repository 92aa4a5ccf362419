# SPDX-License-Identifier: Apache-2.0
"""The open connections of one front-end, and the streams that count as connections."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.frontend.exchange.timeouts import Expiry, longest_look_s

if TYPE_CHECKING:
    from servekit.frontend.exchange.protocols import Timed
    from servekit.settings import Settings

__all__ = ["OpenConnections"]


class OpenConnections:
    """Counts them, calls those whose timeout passes, and closes idle ones when asked to."""

    def __init__(self, settings: Settings) -> None:
        """Hold none yet."""
        self._open: set[Timed] = set()
        self._limit = settings.max_connections
        self._expiry = Expiry(longest_look_s(settings), monotonic())
        self.is_crowded = False  #: connections are closed after one response
        self.is_draining = False  #: the front-end shuts down

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Timed) -> None:
        """Count *connection*, and watch its timeouts."""
        self._open.add(connection)
        self.is_crowded = len(self._open) > self._limit
        self._expiry.watch(connection, monotonic())

    def discard(self, connection: Timed) -> None:
        """Forget *connection*: it is closed."""
        self._open.discard(connection)

    def sweep(self, now: float) -> None:
        """Call the connections whose timeout has passed."""
        self._expiry.sweep(now)
        self.is_crowded = len(self._open) > self._limit

    def close_idle(self, now: float) -> None:
        """Close every connection that has no request in progress."""
        for connection in list(self._open):
            connection.close_if_idle(now)

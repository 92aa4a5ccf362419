# SPDX-License-Identifier: Apache-2.0
"""The open connections of one front-end, and their timeouts.

Streams of HTTP/2 count as connections, too.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.frontend.exchange.connection_shares import ConnectionShares
    from servekit.frontend.exchange.protocols import Timed
    from servekit.settings import Settings

__all__ = ["OpenConnections"]


TICK_S = 0.1
POLL_S = 1.0


class OpenConnections:
    """Counts them, calls those whose timeout passes, and closes idle ones when asked to."""

    def __init__(self, settings: Settings, shares: ConnectionShares | None = None) -> None:
        """Hold none yet.

        :param shares: of all front-ends, if there are several.
        """
        self._shares = shares
        self._limit = settings.max_connections
        self._expiry = Expiry(longest_poll_s(settings), monotonic())
        self.is_crowded = False  #: connections are closed after one response
        self.is_draining = False  #: the front-end shuts down

    def __len__(self) -> int:
        return len(self._expiry.ticks)

    def add(self, connection: Timed) -> None:
        """Count *connection*, and watch its timeouts."""
        self._expiry.watch(connection, monotonic())
        self.is_crowded = len(self) > self._limit
        self._note()

    def discard(self, connection: Timed) -> None:
        """Forget *connection*: it is closed."""
        self._expiry.forget(connection)
        self._note()

    def is_ahead(self) -> bool:
        """Whether another front-end has clearly fewer connections."""
        return self._shares is not None and self._shares.is_ahead(len(self), monotonic())

    def drain(self) -> None:
        """The front-end shuts down: the others need not wait for it to accept."""
        self.is_draining = True
        if self._shares is not None:
            self._shares.leave()

    def sweep(self, now: float) -> None:
        """Call the connections whose timeout has passed."""
        self._expiry.sweep(now)
        self.is_crowded = len(self) > self._limit
        if self._shares is not None and not self.is_draining:
            self._shares.renew(now)

    def close_idle(self, now: float) -> None:
        """Close every connection that has no request in progress."""
        for connection in list(self._expiry.ticks):
            connection.close_if_idle(now)

    def _note(self) -> None:
        if self._shares is not None:
            self._shares.note(len(self))


class Expiry:
    """Looks at each connection when it expires, or after ``poll_s`` if that is sooner.

    So a connection just sets ``expires``: any moment that is at least ``poll_s`` away is seen in
    time.
    """

    def __init__(self, poll_s: float, now: float) -> None:
        """Begin at *now* (``monotonic``)."""
        self._poll_s = poll_s
        self._tick = int(now / TICK_S)  #: the last one that has been looked at
        self._due: dict[int, set[Timed]] = {}
        self.ticks: dict[Timed, int] = {}  #: when each of them is looked at

    def watch(self, connection: Timed, now: float) -> None:
        """Look at *connection* from now on, until it is forgotten."""
        moment = min(connection.expires, now + self._poll_s)
        tick = max(int(moment / TICK_S), self._tick) + 1
        self._due.setdefault(tick, set()).add(connection)
        self.ticks[connection] = tick

    def forget(self, connection: Timed) -> None:
        """Stop looking at *connection*: thousands that are closed would take memory until then."""
        tick = self.ticks.pop(connection, 0)
        if tick in self._due:
            self._due[tick].discard(connection)

    def sweep(self, now: float) -> None:
        """Call ``expire`` of the connections whose timeout has passed."""
        first, self._tick = self._tick + 1, int(now / TICK_S)
        for tick in range(first, self._tick + 1):
            for connection in self._due.pop(tick, ()):
                if connection.expires <= now and not connection.is_closed:
                    connection.expire()
                if not connection.is_closed:
                    self.watch(connection, now)


def longest_poll_s(settings: Settings) -> float:
    """Return the longest pause between two polls: the shortest timeout at most."""
    reading = (settings.header_timeout, settings.body_timeout, settings.keep_alive)
    return max(TICK_S, min(POLL_S, *reading, settings.send_timeout))

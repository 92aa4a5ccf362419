# SPDX-License-Identifier: Apache-2.0
"""Notices timeouts of connections soon, at a low cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.frontend.exchange.protocols import Timed
    from servekit.settings import Settings

__all__ = ["Expiry", "longest_look_s"]

TICK_S = 0.1
LOOK_S = 1.0


def longest_look_s(settings: Settings) -> float:
    """Return the longest pause between two looks: the shortest timeout at most."""
    reading = (settings.header_timeout, settings.body_timeout, settings.keep_alive)
    return max(TICK_S, min(LOOK_S, *reading, settings.send_timeout))


class Expiry:
    """Looks at each connection when it expires, or after ``look_s`` if that is sooner.

    So a connection just sets ``expires``: any moment that is at least ``look_s`` away is seen in
    time.
    """

    def __init__(self, look_s: float, now: float) -> None:
        """Begin at *now* (``monotonic``)."""
        self._look_s = look_s
        self._tick = int(now / TICK_S)  #: the last one that has been looked at
        self._due: dict[int, list[Timed]] = {}

    def watch(self, connection: Timed, now: float) -> None:
        """Look at *connection* from now on, until it is closed."""
        moment = min(connection.expires, now + self._look_s)
        tick = max(int(moment / TICK_S), self._tick) + 1
        self._due.setdefault(tick, []).append(connection)

    def sweep(self, now: float) -> None:
        """Call ``expire`` of the connections whose timeout has passed."""
        first, self._tick = self._tick + 1, int(now / TICK_S)
        for tick in range(first, self._tick + 1):
            for connection in self._due.pop(tick, ()):
                if connection.expires <= now and not connection.is_closed:
                    connection.expire()
                if not connection.is_closed:
                    self.watch(connection, now)

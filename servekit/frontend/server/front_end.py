# SPDX-License-Identifier: Apache-2.0
"""The life of one front-end: it reaches the workers, accepts, keeps time, and shuts down."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import gevent

from servekit.errors import Draining

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence

    from servekit.frontend.middleware.access_log import AccessLog
    from servekit.frontend.server.acceptor import Acceptor
    from servekit.frontend.server.core import Core
    from servekit.ipc.table import Table

__all__ = ["FrontEnd"]

SWEEP_S = 0.1  #: how late a deadline or a timeout may be noticed
LATE_S = 0.3  #: a sweep that is later than this finds a process that was paused, or starved of CPU
POLL_S = 0.02  #: how often a shutdown checks whether everything is answered
LAST_ANSWERS_S = 0.5  #: time for the 503s of requests that exceed the grace period
OVERLAP_S = 1.0  #: how long a front-end that is replaced still accepts, while the new one boots
REACH_S = 2.0  #: how long a new front-end tries to reach the workers before it accepts


class FrontEnd:
    """Accepts connections in one process, until it drains."""

    def __init__(
        self,
        core: Core,
        acceptor: Acceptor,
        *,
        own: Sequence[tuple[Acceptor, socket.socket]] = (),
        access_log: AccessLog | None = None,
        waits: Sequence[Callable[[], bool]] = (),
    ) -> None:
        """Accept nothing yet, but follow the supervisor's table from now on.

        :param acceptor: of the clients' listeners.
        :param own: those of transports with separate listeners.
        :param waits: a shutdown waits while one of them returns true.
        """
        self.core = core
        self._acceptor, self._own = acceptor, own
        self._management: list[Acceptor] = []
        self._access_log = access_log
        self._waits = waits
        self._second = 0
        self._swept_at = monotonic()
        self._has_skipped = False
        core.control.follow(core.loop, self._on_table)

    def start(self, listeners: Iterable[socket.socket]) -> None:
        """Accept connections from *listeners* and tell the supervisor so.

        Workers that serve already are reached first, so that a front-end that replaces
        another refuses nothing; clients wait in the kernel meanwhile.
        """
        deadline = monotonic() + REACH_S
        while not self.core.routing.is_set_up and monotonic() < deadline:
            gevent.sleep(0.001)
        self.core.pressure.sweep(monotonic())
        self.core.connections.sweep(monotonic())
        self._acceptor.open(listeners)
        for acceptor, listener in self._own:
            acceptor.open([listener])
        self._swept_at = monotonic()
        self._sweeper = self.core.loop.timer(SWEEP_S, SWEEP_S)
        self._sweeper.start(self._sweep)
        self.core.control.say_ready()

    def manage(self, acceptor: Acceptor, listener: socket.socket) -> None:
        """Accept from a *listener* of management, too."""
        acceptor.open([listener])
        self._management.append(acceptor)

    @property
    def _of_clients(self) -> list[Acceptor]:
        return [self._acceptor, *(acceptor for acceptor, _ in self._own)]

    def drain(self, grace_s: float) -> None:
        """Answer everything that the kernel has accepted, for at most *grace_s* seconds."""
        routing = self.core.routing
        self._set_draining()
        if not routing.table.is_draining:  # another front-end takes our place
            gevent.sleep(OVERLAP_S)
        for acceptor in self._of_clients:
            acceptor.close(is_last=routing.table.is_draining)
        for acceptor in self._management:
            acceptor.close(is_last=False)
        self._close_idle_for(grace_s)
        routing.batchers.fail_all(Draining())
        self._close_idle_for(LAST_ANSWERS_S)
        routing.metrics.settle()
        if self._access_log is not None:
            self._access_log.write()
        if self.core.traces is not None:
            self.core.traces.send()

    def _set_draining(self) -> None:
        self.core.connections.drain()
        if self.core.routing.table.is_draining:  # workers that die are not replaced any more
            self.core.routing.batchers.drain()

    def _close_idle_for(self, limit_s: float) -> None:
        """Close each connection when it is idle, until none is left or the time is over."""
        deadline = monotonic() + limit_s
        while self._is_busy() and monotonic() < deadline:
            self.core.connections.close_idle(monotonic())
            gevent.sleep(POLL_S)

    def _is_busy(self) -> bool:
        return bool(self.core.connections) or any(is_busy() for is_busy in self._waits)

    def _sweep(self) -> None:
        core, now = self.core, monotonic()
        is_late, self._swept_at = now > self._swept_at + SWEEP_S + LATE_S, now
        self._has_skipped = is_late and not self._has_skipped
        if self._has_skipped:
            return  # clients and workers are not late: we have yet to read what they have sent
        core.pressure.sweep(now)
        core.routing.batchers.sweep(now)
        if core.traces is not None:
            core.traces.sweep(now)
        core.connections.sweep(now)
        for acceptor in (*self._of_clients, *self._management):
            acceptor.resume()
        if self._access_log is not None:
            self._access_log.write()
        if int(now) != self._second:
            self._second = int(now)
            core.date.renew()
            if core.pressure.is_high:
                core.connections.close_idle(now)

    def _on_table(self, table: Table) -> None:
        self.core.routing.update(table)
        if table.is_draining or self.core.connections.is_draining:
            self._set_draining()

# SPDX-License-Identifier: Apache-2.0
"""The way down, in order: say so, drain the front-end, let the workers leave, then daemons."""

from collections.abc import Callable, Iterable, Sequence

from servekit.settings import Settings
from servekit.supervisor.models.model import Model
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.replicas.load_queue import LoadQueue
from servekit.supervisor.server.daemon import Daemons
from servekit.supervisor.server.front_end import FrontEndProcess

__all__ = ["Shutdown"]

MARGIN_S = 2.0  #: the front-end keeps to the grace itself; this is for one that does not
LEAVE_S = 5.0  #: a worker whose front-end is gone holds no batch; it may still close its service
QUICK_S = 1.0
LAST_S = 1.5  #: of a hurry: for the daemons, which go last


class Shutdown:
    """Begun by the first signal, hurried by the second."""

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        front_end: FrontEndProcess,
        models: Sequence[Model],
        daemons: Daemons,
        loads: Iterable[LoadQueue],
        close_listener: Callable[[], object],
    ) -> None:
        """Do nothing yet. *close_listener* closes the supervisor's copy of the TCP listener."""
        self._loop = loop
        self._settings = settings
        self._front_end = front_end
        self._models = models
        self._daemons = daemons
        self._loads = loads
        self._close_listener = close_listener
        self._is_front_end_stopped = False
        self._are_workers_stopped = False
        self.has_begun = False

    def begin(self) -> None:
        """Serve on for the drain delay, then stop the front-end; the workers follow."""
        self.has_begun = True
        self._loop.call_later(self._settings.drain_delay, self._stop_front_end)

    def hurry(self) -> None:
        """Be gone in two seconds.

        The workers go first: the front-end then answers 503 to all that is in flight, and
        has nothing left to wait for.
        """
        self.has_begun = True
        self._stop_workers()
        for model in self._models:
            model.kill("stopped")
        self._stop_front_end()
        self._loop.call_later(QUICK_S, self._front_end.kill)
        self._loop.call_later(LAST_S, self._daemons.kill)

    def advance(self) -> None:
        """Take the next step, or end the loop; called whenever a child is gone."""
        if not self.has_begun:
            return
        if self._is_front_end_stopped and self._front_end.pid is None:
            self._stop_workers()
            if not any(model.pids for model in self._models):
                self._daemons.stop()
                if not self._daemons.pids:
                    self._loop.stop()

    def _stop_front_end(self) -> None:
        if self._is_front_end_stopped:
            return
        self._is_front_end_stopped = True
        # While any copy is open the kernel takes connections, and nobody would accept them.
        self._close_listener()
        self._loop.call_later(self._settings.grace + MARGIN_S, self._front_end.kill)
        self._front_end.stop()

    def _stop_workers(self) -> None:
        if self._are_workers_stopped:
            return
        self._are_workers_stopped = True
        for loads in self._loads:
            loads.close()
        for model in self._models:
            model.stop()
        self._loop.call_later(min(LEAVE_S, self._settings.grace), self._kill_workers)

    def _kill_workers(self) -> None:
        for model in self._models:
            model.kill("did not leave")

# SPDX-License-Identifier: Apache-2.0
"""The end of the server, in order: processes of plugins, front-end, workers, daemons, observer."""

from collections.abc import Callable
from time import time

from servekit.extension.events import ServerStopping
from servekit.settings import Settings
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.reporting.reporter import Reporter
from servekit.supervisor.server.daemons import Daemons
from servekit.supervisor.server.front_end import FrontEndProcess
from servekit.supervisor.server.observer import ObserverProcess
from servekit.supervisor.server.plugin_processes import PluginProcesses

__all__ = ["Shutdown"]

MARGIN_S = 2.0  #: the front-end keeps to the grace itself; this is for one that does not
CLOSE_S = 5.0  #: a worker whose front-end is gone holds no batch; it may still close its service
PASS_ON_S = 0.5  #: for processes of plugins to pass on what they have accepted
QUICK_S = 1.0
LAST_S = 1.5  #: in a hurry: for the daemons and the observer, which are last


class Shutdown:
    """Begun by the first signal, hurried by the second."""

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        reporter: Reporter,
        registry: ModelRegistry,
        front_end: FrontEndProcess,
        plugins: PluginProcesses,
        daemons: Daemons,
        observer: ObserverProcess,
        close_listener: Callable[[], object],
    ) -> None:
        """Do nothing yet. *close_listener* closes the supervisor's copy of the TCP listener."""
        self._loop = loop
        self._settings = settings
        self._reporter = reporter
        self._registry = registry
        self._front_end = front_end
        self._plugins = plugins
        self._daemons = daemons
        self._observer = observer
        self._close_listener = close_listener
        self._are_plugins_stopped = False
        self._is_front_end_stopped = False
        self._are_workers_stopped = False
        self.has_begun = False

    def begin(self, reason: str) -> None:
        """Serve on for the drain delay, then stop the front-end; the workers follow.

        The processes of plugins are asked first. They accept nothing more, and what they have begun
        is answered by way of the front-end, which waits for it.
        """
        self._start(reason)
        self._loop.call_later(self._settings.drain_delay, self._stop_plugins)

    def hurry(self, reason: str) -> None:
        """End within two seconds.

        The workers go first: the front-end then answers 503 to all that is in flight, and
        has nothing left to wait for.
        """
        self._start(reason)
        self._stop_workers()
        self._registry.kill("stopped")
        self._stop_front_end()
        self._loop.call_later(QUICK_S, self._front_end.kill)
        self._plugins.stop()
        self._loop.call_later(QUICK_S, self._plugins.kill)
        self._loop.call_later(LAST_S, self._daemons.kill)
        self._loop.call_later(LAST_S, self._observer.kill)

    def advance(self) -> None:
        """Take the next step, or end the loop; called whenever a child is gone."""
        if not self.has_begun:
            return
        if self._are_plugins_stopped and not self._plugins.pids:
            self._stop_front_end()
        if self._is_front_end_stopped and self._front_end.pid is None:
            self._stop_workers()
            if not self._registry.pids:
                self._daemons.stop()
                self._observer.stop()
                if not (self._daemons.pids or self._plugins.pids or self._observer.pid):
                    self._loop.stop()

    def _start(self, reason: str) -> None:
        if not self.has_begun:
            self.has_begun = True
            grace_s, delay_s = self._settings.grace, self._settings.drain_delay
            self._reporter.event(
                ServerStopping(time_s=time(), reason=reason, drain_delay_s=delay_s, grace_s=grace_s)
            )

    def _stop_plugins(self) -> None:
        self._are_plugins_stopped = True
        self._plugins.stop()
        self._loop.call_later(PASS_ON_S, self._stop_front_end)
        self.advance()

    def _stop_front_end(self) -> None:
        if self._is_front_end_stopped:
            return
        self._is_front_end_stopped = True
        self._close_listener()
        self._loop.call_later(self._settings.grace + MARGIN_S, self._front_end.kill)
        self._front_end.stop()

    def _stop_workers(self) -> None:
        if self._are_workers_stopped:
            return
        self._are_workers_stopped = True
        self._registry.stop()
        self._loop.call_later(CLOSE_S, self._plugins.kill)
        self._loop.call_later(
            min(CLOSE_S, self._settings.grace), lambda: self._registry.kill("did not leave")
        )

# SPDX-License-Identifier: Apache-2.0
"""The supervisor itself: binds, starts, watches, restarts, publishes, reloads, stops."""

import os
import signal

from servekit.errors import StartupError
from servekit.ipc.control import (
    ControlMessage,
    Hung,
    Lost,
    PluginHooks,
    Reload,
    Wanted,
    WantedProcesses,
)
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.operations import Operate
from servekit.ipc.table import Table
from servekit.settings import Settings
from servekit.settings.shared import write_settings
from servekit.supervisor.models.on_demand import OnDemand
from servekit.supervisor.models.registry import ModelRegistry
from servekit.supervisor.models.saved_models import lay_over, unloaded
from servekit.supervisor.operations.autoscaling import Autoscaler
from servekit.supervisor.operations.operations import Operations
from servekit.supervisor.operations.server import OperatedServer
from servekit.supervisor.operations.state_file import StateFile
from servekit.supervisor.os.coroutines import close_coroutines, run_coroutine
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.orphans import Orphans
from servekit.supervisor.os.resources import raise_descriptor_limit
from servekit.supervisor.os.run_directory import CONTROL_SOCKET, RunDirectory
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal, Notice
from servekit.supervisor.reporting.reporter import Reporter
from servekit.supervisor.reporting.systemd import Systemd
from servekit.supervisor.server.configuration import Read
from servekit.supervisor.server.control import ControlSocket
from servekit.supervisor.server.daemons import Daemons
from servekit.supervisor.server.front_end import FrontEndProcess, front_end_command
from servekit.supervisor.server.listeners import Listeners, check_access
from servekit.supervisor.server.log_files import FiledLog
from servekit.supervisor.server.observer import ObserverProcess
from servekit.supervisor.server.origins import Origins
from servekit.supervisor.server.plugin_processes import PluginProcesses
from servekit.supervisor.server.set_up import check_users, standard_output
from servekit.supervisor.server.shutdown import Shutdown
from servekit.supervisor.server.start_up import StartUp

__all__ = ["Supervisor"]

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)
STDERR = 2


class Supervisor:
    """Serves the models of *settings*; everything it starts ends with it."""

    def __init__(self, settings: Settings, journal: Journal, read: Read | None = None) -> None:
        """Bind the listeners and make the run directory; start nothing yet. Main thread only.

        :raises StartupError: a path or the address cannot be used.
        """
        self._loop = Loop(self._on_bug)
        journal = self._log = FiledLog(self._loop, settings, journal)
        state = StateFile(settings.state_file, journal)
        self._origins = Origins(settings, read, state.saved, journal)
        if settings.state:  # a store of models may be read-only
            state.check_writable()
        check_access(settings, journal)
        check_users(settings, len(self._origins.first))
        self._has_terminal = os.isatty(STDERR)
        self._loop.watch_signals(SIGNALS, self._signalled)  # they wait until it runs
        self._listeners = Listeners(settings)
        self._run_directory = RunDirectory(settings.run_dir)
        with self._run_directory.beginning():
            write_settings(settings, self._run_directory.path)
            self._listeners.bind_private(self._run_directory.path)
        self._build(state, journal)

    def _build(self, state: StateFile, journal: FiledLog) -> None:
        """Make what is started later: each part gets those that it uses."""
        loop, settings, run_dir = self._loop, self._origins.settings, self._run_directory.path
        sources = self._origins.first
        starts = lay_over(sources, state.saved)
        self._observer = ObserverProcess(loop, run_dir, settings.log_format, journal, self.changed)
        systemd = Systemd(os.environ, loop.call_later, lambda: not self._registry.is_loading)
        with self._run_directory.beginning():
            self._reporter = Reporter(journal, run_dir, [self._observer, systemd], loop.call_later)
        self._registry = ModelRegistry(
            loop, settings, sources, starts, run_dir, self._reporter, self.changed, self._name_clash
        )
        self._registry.unloaded += unloaded(sources, state.saved)
        state.tell(starts)
        self._orphans = Orphans(loop, run_dir, self._pids)
        self._daemons = Daemons(loop, settings.daemons, self._reporter, self.changed)
        self._plugins = PluginProcesses(loop, self._reporter, settings.grace, self.changed)
        with self._run_directory.beginning():
            path, on_ready = run_dir / CONTROL_SOCKET, self._front_ends_ready
            self._control = ControlSocket(loop, path, self._table, on_ready, self._reported)
        listeners, counters = self._listeners, create_memory()
        self._front_end = self._front_end_process(counters)
        self._shutdown = Shutdown(
            loop,
            settings,
            self._reporter,
            self._registry,
            self._front_end,
            self._plugins,
            self._daemons,
            self._observer,
            listeners.close_public,
        )
        self._operations = self._operator(Counters(counters), state)
        self._on_demand = OnDemand(self._registry, Counters(counters))
        self._start_up = StartUp(
            settings,
            self._registry,
            listeners,
            self._reporter,
            self._shutdown.hurry,
            lambda: run_coroutine(loop, self._settle()),
            self._origins.may_recover,
        )

    def _front_end_process(self, counters: int) -> FrontEndProcess:
        """Return the process that serves our listeners, and counts in the memory *counters*."""
        listeners, output = self._listeners, standard_output(self._origins.settings)
        run_dir = self._run_directory.path
        command = front_end_command(run_dir, listeners.public, listeners.manage, counters, output)
        return FrontEndProcess(
            self._loop,
            command,
            self._reporter,
            self.changed,
            lambda last_line: self._start_up.fail(StartupError(f"front-end: {last_line}")),
        )

    def _operator(self, counters: Counters, state: StateFile) -> Operations:
        """Return what carries out operations."""
        server = OperatedServer.of(self._registry, self._loop, counters)
        Autoscaler(server).begin()
        return Operations(
            server,
            lambda: self._start_up.has_settled and not self._shutdown.has_begun,
            self.changed,
            lambda: state.save(self._registry.saved),
            self._control.spread,
        )

    def run(self) -> None:
        """Serve until a signal ends it. Blocks; main thread only.

        :raises StartupError: nothing could be served; everything has been stopped.
        :raises KeyboardInterrupt: SIGINT came before it was serving; the same.
        """
        try:
            self._log.start()
            self._orphans.adopt()
            self._reporter.attach(self._loop.call_later)
            raise_descriptor_limit()
            self._daemons.start()
            self._front_end.try_to_start()
            self._origins.start(self._operations.server, self._operations.save)
            self._registry.load_all()
            self._origins.loading()
            self._loop.run()
        finally:
            self._clean_up()
        if self._start_up.error:
            raise self._start_up.error
        if self._start_up.is_interrupted:
            raise KeyboardInterrupt

    def changed(self) -> None:
        """Publish the routing table at the end of this turn, and take the next step."""
        self._control.publish()
        self._loop.defer(self._advance)

    # ------------------------------------------------------------------ events

    def _advance(self) -> None:
        if not self._shutdown.has_begun:
            self._start_up.advance(is_front_end_ready=self._front_end.is_ready)
        self._shutdown.advance()
        self._registry.sweep()
        self._orphans.sweep()

    async def _settle(self) -> None:
        """Let every front-end answer by what has loaded before anybody reads "serving"."""
        await self._control.spread()
        self._start_up.is_known = True
        self._loop.defer(self._advance)

    def _table(self) -> Table:
        rows, missing = self._registry.rows(), self._daemons.missing
        tally, operations = self._reporter.tally, self._operations.rows
        return Table(
            rows, self._shutdown.has_begun, missing, tally, operations, self._plugins.missing
        )

    def _name_clash(self, problem: str) -> None:
        """End the start: which of the two models would be served is a matter of luck."""
        if not self._start_up.is_serving:
            self._start_up.fail(StartupError(f"models: {problem}"))

    def _front_ends_ready(self, count: int) -> None:
        self._front_end.set_ready(count >= self._origins.settings.front_ends)
        self.changed()

    def _reported(self, report: ControlMessage) -> None:
        match report:
            case PluginHooks():
                self._observer.want(report.hooks)
            case WantedProcesses():
                self._plugins.want(report.processes)
            case Hung():
                self._registry.hung(report)
            case Lost():
                self._reporter.lost(report)
            case Wanted():
                self._on_demand.wanted(report)
            case Reload():
                self._reload()
            case Operate():
                self._operations.begin(report)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGCHLD:  # maybe of an orphan; our own children tell us themselves
            self._loop.defer(self._orphans.sweep)
            return
        has_lost_terminal = self._has_terminal and not os.isatty(STDERR)  # closing it is a SIGHUP
        if number == signal.SIGHUP and not has_lost_terminal:
            self._reload()
            return
        name = signal.Signals(number).name
        if number == signal.SIGINT:
            self._start_up.interrupt()
        if self._shutdown.has_begun or number == signal.SIGQUIT:
            self._shutdown.hurry(name)
        else:
            self._reporter.notice(Notice("stopping", "servekit", "stopping"))
            self._shutdown.begin(name)
        self.changed()

    def _reload(self) -> None:
        """Renew the front-ends and the observer, and load the models that have changed."""
        if self._shutdown.has_begun:
            return
        self._reporter.notice(Notice("reloading", "servekit", "reloading"))
        if self._origins.reload(self._registry):
            self._front_end.renew()
            self._observer.renew()

    def _on_bug(self, error: Exception) -> None:
        """Log and continue: a bug in the handling of one replica must not stop the others."""
        self._reporter.notice(notices.internal_error(error))

    # ------------------------------------------------------------------ end

    def _pids(self) -> set[int]:
        others = (self._front_end.pid, self._observer.pid, self._log.pid)
        pids = {pid for pid in others if pid is not None} | self._plugins.pids | self._daemons.pids
        return pids | self._origins.pids | self._registry.pids

    def _clean_up(self) -> None:
        self._plugins.kill()
        self._front_end.kill()
        self._observer.kill()
        self._origins.kill()
        self._registry.kill("stopped")
        self._daemons.kill()
        close_coroutines(self._loop)
        self._log.finish(self._start_up.error)
        self._orphans.end()
        self._listeners.close()
        self._observer.close()
        self._reporter.close()
        self._run_directory.remove()
        self._loop.forget_signals()

# SPDX-License-Identifier: Apache-2.0
"""The supervisor itself: binds, starts, watches, restarts, publishes, reloads, stops."""

import dataclasses
import json
import os
import signal
import traceback

from servekit.errors import StartupError
from servekit.ipc.control import Hung, Lost, Reload
from servekit.ipc.counters import create_memory
from servekit.ipc.table import ModelRow, Table, Tally
from servekit.settings import Settings
from servekit.settings.models import clash, parse_models
from servekit.settings.values import STDOUT
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.routes import clashes, note_clashes
from servekit.supervisor.os.environment import withheld
from servekit.supervisor.os.listeners import bind_tcp, url_of
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.orphans import Orphans
from servekit.supervisor.os.resources import available_bytes, raise_descriptor_limit, usable_cores
from servekit.supervisor.os.run_directory import RunDirectory
from servekit.supervisor.os.user import find_user, user_of_model
from servekit.supervisor.preparing.watcher import FileWatcher
from servekit.supervisor.replicas.load_queue import Load, LoadQueue
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.crash_log import CrashLog
from servekit.supervisor.reporting.journal import Journal, Notice
from servekit.supervisor.server import start_up
from servekit.supervisor.server.access import bind_manage, bind_private, check_access, managing
from servekit.supervisor.server.control import ControlSocket
from servekit.supervisor.server.daemon import Daemons
from servekit.supervisor.server.front_end import FrontEndProcess, front_end_command
from servekit.supervisor.server.shutdown import Shutdown

__all__ = ["Supervisor"]

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)
STDERR = 2


class Supervisor:
    """Serves the models of *settings*; everything it starts ends with it."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        """Bind the listeners and make the run directory; start nothing yet. Main thread only.

        :raises StartupError: a path or the address cannot be used.
        """
        entries = parse_models(settings.models)
        check_access(settings, journal)
        for number in range(len(entries)):  # there are users, if some are asked for
            find_user(user_of_model(settings.worker_user, number, len(entries)))
        self.settings = settings
        self.journal = journal
        self._loop = Loop(self._on_bug)
        self._has_terminal = os.isatty(STDERR)
        self._loop.watch_signals(SIGNALS, self._signalled)  # they wait until it runs
        self._listener = bind_tcp(settings.host, settings.port)
        self._manage = bind_manage(settings)
        self._run_directory = RunDirectory(settings.run_dir)
        self.run_dir = self._run_directory.path
        with self._run_directory.beginning():
            self._write_settings()
            self._manage.append(bind_private(self.run_dir))
        self.loads = LoadQueue(usable_cores(), available_bytes)
        self.tally = Tally()
        self.crashes = CrashLog(self.run_dir, journal, self.tally)
        self._orphans = Orphans(self._loop, self.run_dir, self._pids)
        self._preparations = LoadQueue(usable_cores(), lambda: None)
        self._models = [Model(self._loop, self, *numbered) for numbered in enumerate(entries)]
        self._daemons = Daemons(self._loop, settings.daemons, journal, self.changed)
        self._paths = [entry.path for entry in entries]
        self._watching: FileWatcher | None = None
        self._error: StartupError | None = None
        self._withheld = withheld(os.environ, settings.pass_env)
        self._is_serving = False
        self._is_interrupted = False
        with self._run_directory.beginning():
            self._control = ControlSocket(
                self._loop,
                self.run_dir / "control.sock",
                self._table,
                self._front_ends_ready,
                self._reported,
            )
        self._counters = create_memory()
        manage = [listener.fileno() for listener in self._manage]
        command = front_end_command(
            self.run_dir, self._listener.fileno(), manage, self._counters, _stdout(settings)
        )
        self._front_end = FrontEndProcess(
            self._loop, command, journal, self._advance, self._front_end_unable
        )
        self._shutdown = Shutdown(
            self._loop,
            settings,
            self._front_end,
            self._models,
            self._daemons,
            (self._preparations, self.loads),
            self._listener.close,
        )

    def run(self) -> None:
        """Serve until a signal ends it. Blocks; main thread only.

        :raises StartupError: nothing could be served; everything has been stopped.
        :raises KeyboardInterrupt: SIGINT came before it was serving; the same.
        """
        try:
            self._orphans.adopt()
            self.journal.attach(self._loop.call_later)
            raise_descriptor_limit()
            self._daemons.start()
            self._front_end.start()
            if self.settings.reload:
                self._watching = FileWatcher(self._loop, self.journal, self._paths, self._saved)
            for model in self._models:
                model.load()
            self._loop.run()
        finally:
            self._clean_up()
        if self._error:
            raise self._error
        if self._is_interrupted:
            raise KeyboardInterrupt

    # ------------------------------------------------------------------ what models ask

    def changed(self) -> None:
        """Publish the routing table at the end of this turn, and see what is next."""
        self._control.publish()
        self._loop.defer(self._advance)

    def prepare(self, model: Model) -> None:
        """Let *model* prepare in its turn."""
        self._preparations.ask(Load(model, 0, model.prepare, lambda _reason: None))

    def prepared(self, model: Model) -> None:
        """Launch a prepared model, and prepare the next one."""
        if not model.is_launched:
            if not model.failure:
                self._tell_withheld()
            model.launch()
        self._preparations.done(model)
        self.changed()

    def _tell_withheld(self) -> None:
        """Say once which variables workers do not get."""
        found, self._withheld = self._withheld, {}
        for level, names in found.items():
            self.journal.notice(notices.variables_withheld(names, level))

    def name_problem(self, model: Model, name: str) -> str:
        """Return why *model* cannot have *name*, or ""; at the start that ends the server."""
        others = [other.name for other in self._models if other is not model and other.is_launched]
        pair = clash([*others, name])
        text = f"{pair[0]} and {pair[1]} are the same name; use NAME=PATH" if pair else ""
        if text and not self._is_serving:
            self._fail(StartupError(f"models: {text}"))
        return text

    def path_problem(self, model: Model, row: ModelRow) -> str:
        """Return which paths of *row*, that of *model*, others have, or ""."""
        others = [other.row() for other in self._models if other is not model]
        found = (clash for clash in clashes([*others, row]) if clash.row is row)
        return "; ".join(f"the path {clash.route.path} is that of {clash.owner}" for clash in found)

    def total_replicas(self) -> int:
        """Return how many workers there are to be, as far as is known."""
        return sum(model.replica_count for model in self._models)

    # ------------------------------------------------------------------ start

    def _write_settings(self) -> None:
        path = self.run_dir / "settings.json"
        shared = dataclasses.replace(self.settings, daemons=())  # their variables may be secrets
        path.write_text(json.dumps(dataclasses.asdict(shared)), encoding="utf-8")

    def _check_start(self) -> None:
        if error := start_up.problem(self._models, self.settings):
            self._fail(error)
        elif start_up.has_settled(self._models) and self._front_end.is_ready:
            self._is_serving = True
            scheme = "https" if self.settings.tls_certificate else "http"
            self.journal.notice(managing(self._manage, scheme))
            self.journal.notice(start_up.serving(self._models, url_of(self._listener, scheme)))

    def _fail(self, error: StartupError) -> None:
        if self._error is None:
            self._error = error
            self._shutdown.hurry()

    # ------------------------------------------------------------------ events

    def _table(self) -> Table:
        rows = note_clashes([model.row() for model in self._models])
        return Table(rows, self._shutdown.has_begun, self._daemons.missing, self.tally)

    def _front_ends_ready(self, count: int) -> None:
        self._front_end.set_ready(count >= self.settings.front_ends)
        self.changed()  # so that the table of this turn is out before anybody reads "serving"

    def _front_end_unable(self, last_line: str) -> None:
        self._fail(StartupError(f"front-end: {last_line}"))

    def _reported(self, report: Hung | Lost | Reload) -> None:
        if isinstance(report, Reload):
            self._reload()
            return
        if isinstance(report, Lost):
            self.crashes.lost(report)
            return
        for model in self._models:
            if model.name == report.model:
                model.hung(report)

    def _signalled(self, number: int) -> None:
        if number == signal.SIGCHLD:  # maybe of an orphan; our own children tell us themselves
            self._loop.defer(self._orphans.sweep)
            return
        if number == signal.SIGHUP and not self._has_lost_terminal():
            self._reload()
            return
        self._is_interrupted |= number == signal.SIGINT and not self._is_serving
        if self._shutdown.has_begun or number == signal.SIGQUIT:
            self._shutdown.hurry()
        else:
            self.journal.notice(Notice("stopping", "servekit", "stopping"))
            self._shutdown.begin()
        self.changed()

    def _has_lost_terminal(self) -> bool:
        """Whether the terminal that we were started at has been closed: that is SIGHUP too."""
        return self._has_terminal and not os.isatty(STDERR)

    def _reload(self) -> None:
        """Renew the front-ends, and load what has changed of the models."""
        if self._shutdown.has_begun:
            return
        self.journal.notice(Notice("reloading", "servekit", "reloading"))
        self._front_end.renew()
        for model in self._models:
            model.load()

    def _saved(self, place: int) -> None:
        self._models[place].load()

    def _advance(self) -> None:
        if not self._is_serving and not self._shutdown.has_begun:
            self._check_start()
        self._shutdown.advance()
        self._orphans.sweep()

    def _on_bug(self, error: Exception) -> None:
        """Go on: a mistake in the handling of one replica must not unload the others."""
        text = "internal error: " + "".join(traceback.format_exception(error))
        self.journal.notice(Notice("internal_error", "servekit", text, "error"))

    # ------------------------------------------------------------------ end

    def _pids(self) -> set[int]:
        others = self._front_end.pid, self._watching.pid if self._watching else None
        pids = {pid for pid in others if pid is not None}
        return pids.union(self._daemons.pids, *(model.pids for model in self._models))

    def _clean_up(self) -> None:
        self._front_end.kill()
        if self._watching:
            self._watching.kill()
        for model in self._models:
            model.kill("stopped")
        self._daemons.kill()
        self._orphans.end()
        for listener in (self._listener, *self._manage):
            listener.close()
        self._run_directory.remove()
        self._loop.forget_signals()


def _stdout(settings: Settings) -> int | None:
    """Return a descriptor for the access log, if it goes to our standard output.

    :raises StartupError: that is closed.
    """
    if settings.access_log != STDOUT:
        return None
    try:
        return os.dup(1)
    except OSError as error:
        raise StartupError("access_log: the standard output is closed") from error

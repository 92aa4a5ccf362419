# SPDX-License-Identifier: Apache-2.0
"""The supervisor itself: binds, starts, watches, restarts, publishes, stops."""

import dataclasses
import json
import signal
import traceback
from collections import deque
from time import monotonic, sleep

from servekit import __version__
from servekit.errors import StartupError
from servekit.messages import Hung, Table
from servekit.settings import Settings
from servekit.supervisor.access import check_access
from servekit.supervisor.control import ControlSocket
from servekit.supervisor.entry import clash, parse_entries
from servekit.supervisor.environment import usable_cores
from servekit.supervisor.front_end import FrontEnd, front_end_command
from servekit.supervisor.journal import Journal, Notice
from servekit.supervisor.limits import raise_descriptor_limit
from servekit.supervisor.listeners import bind_tcp, url_of
from servekit.supervisor.loads import Loads
from servekit.supervisor.loop import Loop
from servekit.supervisor.memory import available_bytes
from servekit.supervisor.model import Model
from servekit.supervisor.process import adopt_orphans, kill_strangers
from servekit.supervisor.run_directory import RunDirectory
from servekit.supervisor.shutdown import Shutdown

__all__ = ["AllRefused", "Supervisor"]

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
STRANGERS_S = 1.0  #: a killed orphan is reaped after so long at most


class AllRefused(StartupError):
    """No model could be prepared; each has said ``cannot be loaded`` and why."""


class Supervisor:
    """Serves the models of *settings*; everything it starts ends with it."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        """Bind the listeners and make the run directory; start nothing yet. Main thread only.

        :raises StartupError: a path or the address cannot be used.
        """
        entries = parse_entries(settings.models)
        check_access(settings, journal)
        self.settings = settings
        self.journal = journal
        self._loop = Loop(self._on_bug)
        self._loop.watch_signals(SIGNALS, self._signalled)  # they wait until it runs
        self._listener = bind_tcp(settings.host, settings.port)
        self._url = url_of(self._listener)
        self._run_directory = RunDirectory(settings.run_dir)
        self.run_dir = self._run_directory.path
        self.loads = Loads(usable_cores(), available_bytes)
        self._models = [Model(self._loop, self, *numbered) for numbered in enumerate(entries)]
        self._unprepared = deque(self._models)
        self._preparing = 0
        self._error: StartupError | None = None
        self._is_serving = False
        self._is_interrupted = False
        self._control = ControlSocket(
            self._loop,
            self.run_dir / "control.sock",
            self._table,
            self._front_ends_ready,
            self._hung,
        )
        several = settings.front_ends > 1
        command = front_end_command(self.run_dir, self._listener.fileno(), has_several=several)
        self._front_end = FrontEnd(
            self._loop, command, journal, self._advance, self._front_end_unable
        )
        self._shutdown = Shutdown(
            self._loop,
            settings,
            self._front_end,
            self._models,
            self.loads,
            self._listener.close,
        )

    def run(self) -> None:
        """Serve until a signal ends it. Blocks; main thread only.

        :raises StartupError: nothing could be served; everything has been stopped.
        :raises KeyboardInterrupt: SIGINT came before it was serving; the same.
        """
        try:
            self._write_settings()
            self.journal.attach(self._loop.call_later)
            adopt_orphans()
            raise_descriptor_limit()
            self._front_end.start()
            self._prepare_next()
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

    def prepared(self, model: Model) -> None:
        """Launch a prepared model, and prepare the next one."""
        self._preparing -= 1
        if not model.failure:
            self._launch(model)
        self._prepare_next()
        self.changed()

    def total_replicas(self) -> int:
        """Return how many workers there are to be, as far as is known."""
        return sum(model.replica_count for model in self._models)

    # ------------------------------------------------------------------ start

    def _write_settings(self) -> None:
        path = self.run_dir / "settings.json"
        path.write_text(json.dumps(dataclasses.asdict(self.settings)), encoding="utf-8")

    def _prepare_next(self) -> None:
        while self._unprepared and self._preparing < usable_cores():
            self._preparing += 1
            self._unprepared.popleft().prepare()

    def _launch(self, model: Model) -> None:
        known = [other.name for other in self._models if other is model or other.replicas]
        if pair := clash(known):
            text = f"models: {pair[0]} and {pair[1]} are the same name; use NAME=PATH"
            self._fail(StartupError(text))
        else:
            model.launch()

    def _check_start(self) -> None:
        """Judge the start once the first load of every model is over."""
        failed = [model for model in self._models if model.has_settled and not model.is_loaded]
        is_over = all(model.has_settled for model in self._models)
        if is_over and len(failed) == len(self._models):
            kind = AllRefused if all(model.failure for model in failed) else StartupError
            self._fail(kind("no model could be loaded"))
        elif failed and self.settings.strict:
            names = ", ".join(model.name for model in failed)
            self._fail(StartupError(f"strict: {names} could not be loaded"))
        elif is_over and self._front_end.is_ready:
            self._is_serving = True
            self.journal.notice(self._serving())

    def _serving(self) -> Notice:
        labels = [model.label for model in self._models if model.is_loaded]
        text = f"{__version__} serving {', '.join(labels)} at {self._url}  (docs at /docs)"
        return Notice("serving", "servekit", text, fields={"url": self._url, "models": labels})

    def _fail(self, error: StartupError) -> None:
        if self._error is None:
            self._error = error
            self._shutdown.hurry()

    # ------------------------------------------------------------------ events

    def _table(self) -> Table:
        rows = [model.row() for model in self._models]
        return Table(rows, is_draining=self._shutdown.has_begun)

    def _front_ends_ready(self, count: int) -> None:
        self._front_end.set_ready(count >= self.settings.front_ends)
        self._loop.defer(self._advance)

    def _front_end_unable(self, last_line: str) -> None:
        self._fail(StartupError(f"front-end: {last_line}"))

    def _hung(self, hung: Hung) -> None:
        for model in self._models:
            if model.name == hung.model:
                model.hung(hung)

    def _signalled(self, number: int) -> None:
        self._is_interrupted |= number == signal.SIGINT and not self._is_serving
        if self._shutdown.has_begun or number == signal.SIGQUIT:
            self._shutdown.hurry()
        else:
            self.journal.notice(Notice("stopping", "servekit", "stopping"))
            self._shutdown.begin()
        self.changed()

    def _advance(self) -> None:
        if not self._is_serving and not self._shutdown.has_begun:
            self._check_start()
        self._shutdown.advance()
        self._sweep()

    def _on_bug(self, error: Exception) -> None:
        """Go on: a mistake in the handling of one replica must not unload the others."""
        text = "internal error: " + "".join(traceback.format_exception(error))
        self.journal.notice(Notice("internal_error", "servekit", text, "error"))

    # ------------------------------------------------------------------ end

    def _pids(self) -> set[int]:
        pids = {self._front_end.pid} if self._front_end.pid else set()
        return pids.union(*(model.pids for model in self._models))

    def _sweep(self) -> None:
        if kill_strangers(self._pids()):
            self._loop.call_later(STRANGERS_S, self._sweep)

    def _clean_up(self) -> None:
        self._front_end.kill()
        for model in self._models:
            model.kill("stopped")
        deadline = monotonic() + STRANGERS_S
        while kill_strangers(()) and monotonic() < deadline:
            sleep(0.005)
        self._listener.close()
        self._run_directory.remove()
        self._loop.forget_signals()

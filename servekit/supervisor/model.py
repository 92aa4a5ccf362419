# SPDX-License-Identifier: Apache-2.0
"""A model: prepared once, then served by its replicas."""

from pathlib import Path
from typing import Protocol

from servekit.messages import Hung, Interface, ModelRow, Ready
from servekit.settings import Settings
from servekit.supervisor import announce
from servekit.supervisor.backoff import Backoff, Wait
from servekit.supervisor.entry import Entry
from servekit.supervisor.journal import Journal
from servekit.supervisor.launching import boot_of, prepared_row, unprepared_row
from servekit.supervisor.lifecycle import State
from servekit.supervisor.listeners import bind_unix
from servekit.supervisor.loads import BASE_BYTES, Load, Loads
from servekit.supervisor.loop import Loop
from servekit.supervisor.preparation import Preparation
from servekit.supervisor.prepared import Outcome, Prepared, Request
from servekit.supervisor.replica import Boot, Replica
from servekit.supervisor.worker import Exit

__all__ = ["Model", "Server"]

PREPARE_TIMEOUT_S = 120.0  #: where the operator sets none: the model's own is not known yet


class Server(Protocol):
    """What a model asks of the server it is part of."""

    settings: Settings
    journal: Journal
    run_dir: Path
    loads: Loads

    def changed(self) -> None:
        """The routing table is not what it was."""

    def prepared(self, model: "Model") -> None:
        """The prepare child of a model is done, well or not."""

    def total_replicas(self) -> int:
        """Return how many workers there are to be."""


class Model:
    """One row of the routing table and what stands behind it."""

    def __init__(self, loop: Loop, server: Server, number: int, entry: Entry) -> None:
        """Know only the path; *number* tells models apart while their names are not known."""
        self._loop = loop
        self._server = server
        self._number = number
        self._entry = entry
        self._preparation: Preparation | None = None
        self._prepared: Prepared | None = None
        self._interface: Interface | None = None
        self._backoff = Backoff()
        self._is_stopping = False
        self.failure = ""  #: why it cannot be loaded at all
        self.replicas: list[Replica] = []

    @property
    def name(self) -> str:
        """The name it is served under; provisional until it is prepared."""
        return self._prepared.name if self._prepared else self._entry.provisional_name

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name}/{self._prepared.version}" if self._prepared else self.name

    @property
    def replica_count(self) -> int:
        """How many replicas it has, or will have as far as is known."""
        own = self._prepared.replicas if self._prepared else 1
        return 0 if self.failure else self._server.settings.replicas or own

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer: one replica is enough."""
        return any(replica.state is State.SERVING for replica in self.replicas)

    @property
    def has_settled(self) -> bool:
        """Whether its first load is over, well or not."""
        is_booted = bool(self.replicas) and all(r.has_settled for r in self.replicas)
        return bool(self.failure) or is_booted

    @property
    def problem(self) -> str:
        """Why it cannot answer, or ""."""
        reasons = [self.failure, *(replica.reason for replica in self.replicas)]
        return "" if self.is_loaded else next(filter(None, reasons), "")

    @property
    def pids(self) -> set[int]:
        """The children that run for it now."""
        pids = {replica.pid for replica in self.replicas if replica.pid}
        return pids | ({self._preparation.process.pid} if self._preparation else set())

    # ------------------------------------------------------------------ life

    def prepare(self) -> None:
        """Start the prepare child."""
        settings = self._server.settings
        request = Request(
            self._entry.path,
            self._entry.name,
            settings.cache_dir,
            settings.install_requirements,
            settings.fetch_assets,
        )
        self._server.journal.progress(self.name, "preparing")
        try:
            self._preparation = Preparation(
                self._loop,
                request,
                settings.load_timeout or PREPARE_TIMEOUT_S,
                lambda line: self._server.journal.line(self.name, line),
                self._on_outcome,
            )
        except OSError as error:
            self._on_outcome(Outcome(error=f"cannot be prepared: {error.strerror}"))

    def launch(self) -> None:
        """Make the replicas and boot them all."""
        for index in range(self.replica_count):
            listener = bind_unix(self._server.run_dir / f"m{self._number}r{index}")
            self.replicas.append(Replica(self._loop, self, index, listener, self._backoff))
        for replica in self.replicas:
            replica.start()

    def fail(self, reason: str) -> None:
        """Give it up before it has any replica."""
        self.failure = reason
        self._server.journal.progress(self.name, "")
        self._server.journal.notice(announce.model_failed(self.name, reason))

    def stop(self) -> None:
        """Let the workers leave."""
        self._is_stopping = True
        if self._preparation:
            self._preparation.kill()
        for replica in self.replicas:
            replica.stop()

    def kill(self, reason: str) -> None:
        """Kill all that runs for it."""
        if self._preparation:
            self._preparation.kill()
        for replica in self.replicas:
            replica.kill(reason)

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck, unless it has been replaced already."""
        for replica in self.replicas:
            if (replica.index, replica.generation) == (hung.replica, hung.generation):
                replica.kill(hung.reason)

    def row(self) -> ModelRow:
        """Return this model's row of the routing table."""
        settings, prepared = self._server.settings, self._prepared
        row = unprepared_row(self.name) if prepared is None else prepared_row(prepared, settings)
        row.replicas = [replica.row for replica in self.replicas]
        row.capacity = settings.queue
        row.reason = "; ".join(self.failure.splitlines()) or ("" if self.replicas else "loading")
        row.interface = self._interface
        return row

    # ------------------------------------------------------------------ owner of its replicas

    def boot(self, replica: Replica) -> Boot:
        """Return what the next worker of *replica* is started with."""
        if self._prepared is None:
            raise RuntimeError(f"{self.name} is launched before it is prepared")
        total = self._server.total_replicas()
        return boot_of(self._prepared, self._server.settings, replica, total)

    def await_turn(self, replica: Replica, *, is_urgent: bool) -> None:
        """Let *replica* boot in its turn."""

        def begin() -> None:
            _explain(replica, "loading")
            self._server.journal.progress(self.name, "loading")
            replica.boot()

        def wait(reason: str) -> None:
            _explain(replica, reason)
            if all(other.pid is None for other in self.replicas):
                self._server.journal.progress(self.name, reason)

        needs_bytes = BASE_BYTES + (self._prepared.size_bytes if self._prepared else 0)
        self._server.loads.ask(Load(replica, needs_bytes, begin, wait), is_urgent=is_urgent)

    def end_turn(self, replica: Replica) -> None:
        """Let the next replica boot, of whichever model."""
        self._server.loads.done(replica)

    def printed(self, replica: Replica, line: str) -> None:
        """Show a line of a worker."""
        self._server.journal.line(f"{self.name}/{replica.index}", line)

    def ready(self, replica: Replica, ready: Ready) -> None:
        """Take the interface of a worker that is ready."""
        self._interface = ready.interface
        self._server.journal.progress(self.name, "")
        self._server.journal.notice(announce.worker_ready(self.name, replica, ready))
        self._server.changed()

    def exited(self, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """Report a worker that is gone."""
        if wait is not None:
            self._server.journal.progress(self.name, "")
            self._server.journal.notice(announce.worker_exited(self.name, replica, ended, wait))
        self._server.changed()

    def _on_outcome(self, outcome: Outcome) -> None:
        if outcome.step:
            self._server.journal.progress(self.name, outcome.step)
            return
        self._preparation = None
        if self._is_stopping:
            self._server.changed()
            return
        if outcome.model is None:
            self.fail(outcome.error)
        else:
            self._server.journal.progress(self.name, "")
            self._prepared = outcome.model
        self._server.prepared(self)


def _explain(replica: Replica, reason: str) -> None:
    """Say why a new replica is not ready; why the last worker died tells more than that."""
    if not replica.generation:
        replica.reason = reason

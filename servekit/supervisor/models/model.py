# SPDX-License-Identifier: Apache-2.0
"""A model: prepared, at first and at each reload, and served by its versions."""

from typing import Protocol

from servekit.ipc.control import Hung
from servekit.ipc.table import PREPARING, ModelRow
from servekit.settings.models import ModelSource
from servekit.supervisor.models.replica_set import ReplicaSet
from servekit.supervisor.models.rollout import Rollout, RolloutHost
from servekit.supervisor.models.table_rows import prepared_row, unprepared_row
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.user import user_of_model
from servekit.supervisor.preparing.child import PrepareChild
from servekit.supervisor.preparing.messages import PreparedModel, PrepareOutcome, PrepareRequest
from servekit.supervisor.preparing.model_files import FilesRemoved, ModelFiles
from servekit.supervisor.reporting import notices

__all__ = ["Model", "ModelHost"]

PREPARE_TIMEOUT_S = 120.0  #: where the operator sets none: the model's own is not known yet


class ModelHost(RolloutHost, Protocol):
    """What a model asks of the server it is part of."""

    def prepare(self, model: "Model") -> None:
        """Call its ``prepare`` when there is room for one more child."""

    def prepared(self, model: "Model") -> None:
        """The prepare child of a model is done, well or not."""

    def name_problem(self, model: "Model", name: str) -> str:
        """Return why *model* cannot have *name*, or ""."""

    def path_problem(self, model: "Model", row: ModelRow) -> str:
        """Return which paths of *row*, that of *model*, others have, or ""."""


class Model:
    """One row of the routing table and what stands behind it."""

    def __init__(self, loop: Loop, server: ModelHost, number: int, entry: ModelSource) -> None:
        """Know only the path; *number* tells models apart while their names are not known."""
        self._loop = loop
        self._server = server
        self._entry = entry
        self._number = number
        self._versions = Rollout(loop, server, f"m{number}r", self._problem, self._settled)
        self._preparation: PrepareChild | None = None
        self._is_loading = False  #: a preparation is wanted, or what came of it is not settled
        self._is_outdated = False  #: asked to reload meanwhile
        self._is_stopping = False
        self.failure = ""  #: why it cannot be loaded at all

    @property
    def name(self) -> str:
        """The name it is served under; provisional until it is prepared."""
        current = self._versions.current
        return current.name if current else self._entry.provisional_name

    @property
    def label(self) -> str:
        """Name and version."""
        current = self._versions.current
        return current.label if current else self.name

    @property
    def replica_count(self) -> int:
        """How many replicas it has, or will have as far as is known."""
        current = self._versions.current
        if self.failure or current is None:
            return 0 if self.failure else self._server.settings.replicas or 1
        return current.size

    @property
    def is_launched(self) -> bool:
        """Whether it has replicas."""
        current = self._versions.current
        return current is not None and bool(current.replicas)

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer: one replica is enough."""
        current = self._versions.current
        return current is not None and current.is_loaded

    @property
    def has_settled(self) -> bool:
        """Whether its first load is over, well or not."""
        current = self._versions.current
        return bool(self.failure) or (current is not None and current.has_settled)

    @property
    def pids(self) -> set[int]:
        """The children that run for it now."""
        return self._versions.pids | (
            {self._preparation.process.pid} if self._preparation else set()
        )

    # ------------------------------------------------------------------ life

    def load(self) -> None:
        """Prepare it, at first or anew; what differs from what serves takes its place."""
        if self._is_loading:
            self._is_outdated = True
        elif not self._is_stopping:
            self._is_loading = True
            self._server.prepare(self)

    def prepare(self) -> None:
        """Start the prepare child."""
        settings = self._server.settings
        request = PrepareRequest(
            self._entry.path,
            self._entry.name,
            settings.cache_dir,
            settings.install_requirements,
            settings.fetch_assets,
            user_of_model(settings.worker_user, self._number, len(settings.models)),
        )
        self._server.journal.progress(self.name, "preparing")
        try:
            self._preparation = PrepareChild(
                self._loop,
                request,
                settings.load_timeout or PREPARE_TIMEOUT_S,
                lambda line: self._server.journal.line(self.name, line),
                self._on_outcome,
            )
        except OSError as error:
            self._on_outcome(PrepareOutcome(error=f"cannot be prepared: {error.strerror}"))

    def launch(self) -> None:
        """Boot the replicas of the first version."""
        try:
            self._versions.launch()
        except OSError as error:
            self._refuse(f"cannot be launched: {error.strerror}")

    def stop(self) -> None:
        """Let the workers leave."""
        self._is_stopping = True
        if self._preparation:
            self._preparation.kill()
        self._versions.stop()

    def kill(self, reason: str) -> None:
        """Kill all that runs for it."""
        if self._preparation:
            self._preparation.kill()
        self._versions.kill(reason)

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck."""
        self._versions.hung(hung)

    def row(self) -> ModelRow:
        """Return this model's row of the routing table."""
        current = self._versions.current
        row = unprepared_row(self.name) if current is None else self._row(current)
        row.capacity = self._server.settings.queue
        row.reason = "; ".join(self.failure.splitlines()) or ("" if row.replicas else PREPARING)
        return row

    def _row(self, version: ReplicaSet) -> ModelRow:
        row = prepared_row(version.prepared, self._server.settings, version.interfaces)
        row.replicas = [replica.row for replica in version.replicas]
        return row

    def _problem(self, candidate: ReplicaSet) -> str:
        """Return why *candidate* cannot take over, or ""."""
        if problem := self._server.path_problem(self, self._row(candidate)):
            self._server.crashes.model_failed(self.name, problem)
        return problem

    # ------------------------------------------------------------------ what came of it

    def _on_outcome(self, outcome: PrepareOutcome) -> None:
        if outcome.step:
            self._server.journal.progress(self.name, outcome.step)
            return
        self._preparation = None
        if self._is_stopping:
            self._server.changed()
            return
        self._server.journal.progress(self.name, "")
        if outcome.model is None:
            self._refuse(outcome.error)
        else:
            try:
                content = ModelFiles(outcome.model)
            except FilesRemoved:  # by another server that uses the cache
                self.prepare()
                return
            self._take(outcome.model, content)
        self._server.prepared(self)

    def _take(self, prepared: PreparedModel, content: ModelFiles) -> None:
        current = self._versions.current
        if current is None:
            self._begin(prepared, content)
        else:
            self._compare(current.prepared, prepared, content)

    def _begin(self, prepared: PreparedModel, content: ModelFiles) -> None:
        if problem := self._server.name_problem(self, prepared.name):
            if not self._is_stopping:
                self._refuse(problem)
            content.release()
            return
        self.failure = ""
        self._versions.begin(prepared, content)
        self._settled()

    def _compare(self, old: PreparedModel, new: PreparedModel, content: ModelFiles) -> None:
        if new.digest == old.digest:
            self._server.tally.reloaded("unchanged")
            self._server.journal.notice(notices.model_unchanged(self.label))
            content.release()
            self._settled()
        elif new.name != old.name:
            content.release()
            self._refuse(f"its name is {new.name} now; restart the server, or use NAME=PATH")
        else:
            self._versions.follow(new, content)

    def _refuse(self, reason: str) -> None:
        """Report that it cannot be prepared; what serves goes on."""
        if self._versions.current is None:
            self.failure = reason
            notice = notices.model_failed(self.name, reason)
        else:
            self._server.tally.reloaded("failed")
            notice = notices.reload_failed(self.name, reason, self.label)
        self._server.journal.notice(notice)
        self._server.crashes.model_failed(self.name, reason)
        self._settled()

    def _settled(self) -> None:
        self._is_loading = False
        if self._is_outdated:
            self._is_outdated = False
            self._loop.defer(self.load)

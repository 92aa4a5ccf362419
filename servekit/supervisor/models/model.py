# SPDX-License-Identifier: Apache-2.0
"""A model: prepared, at first and at each reload, and served by its versions."""

from servekit.ipc.control import Hung
from servekit.ipc.table import PREPARING, ModelRow
from servekit.settings.models import ModelSource
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.loader import Loader
from servekit.supervisor.models.replica_set import ReplicaSet
from servekit.supervisor.models.rollout import Rollout
from servekit.supervisor.models.table_rows import prepared_row, unprepared_row
from servekit.supervisor.preparing.messages import PreparedModel, PrepareOutcome
from servekit.supervisor.preparing.model_files import ModelFiles
from servekit.supervisor.reporting import notices

__all__ = ["Model"]


class Model:
    """One row of the routing table, and the workers behind it."""

    def __init__(self, host: ModelHost, number: int, source: ModelSource) -> None:
        """Know only the source; *number* tells models apart while their names are not known."""
        self._host = host
        self._provisional_name = source.provisional_name
        self._loader = Loader(host, number, source, lambda: self.name, self._take)
        self._versions = Rollout(host, f"m{number}r", self._problem, self._loader.settle)
        self.load = self._loader.load
        self.failure = ""  #: why it cannot be loaded at all

    @property
    def current(self) -> ReplicaSet | None:
        """The version that serves, or loads as the first one; ``None`` until it is prepared."""
        return self._versions.current

    @property
    def name(self) -> str:
        """The name it is served under; provisional until it is prepared."""
        return self.current.prepared.name if self.current else self._provisional_name

    @property
    def label(self) -> str:
        """Name and version."""
        return self.current.prepared.label if self.current else self.name

    @property
    def replica_count(self) -> int:
        """How many replicas it has, or will have as far as is known."""
        if self.failure or self.current is None:
            return 0 if self.failure else self._host.settings.replicas or 1
        return self.current.size

    @property
    def is_launched(self) -> bool:
        """Whether it has replicas."""
        return self.current is not None and bool(self.current.replicas)

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer: one replica is enough."""
        return self.current is not None and self.current.is_loaded

    @property
    def has_settled(self) -> bool:
        """Whether its first load is over, well or not."""
        return bool(self.failure) or (self.current is not None and self.current.has_settled)

    @property
    def pids(self) -> set[int]:
        """The children that run for it now."""
        return self._loader.pids.union(*(version.pids for version in self._versions))

    def stop(self) -> None:
        """Let the workers leave."""
        self._loader.stop()
        self._versions.stop()

    def kill(self, reason: str) -> None:
        """Kill all that runs for it."""
        self._loader.kill()
        for version in self._versions:
            version.kill(reason)

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck."""
        for version in self._versions:
            version.hung(hung)

    def row(self) -> ModelRow:
        """Return this model's row of the routing table."""
        row = self._row_of(self.current) if self.current else unprepared_row(self.name)
        row.capacity = self._host.settings.queue
        row.reason = "; ".join(self.failure.splitlines()) or ("" if row.replicas else PREPARING)
        return row

    def _row_of(self, version: ReplicaSet) -> ModelRow:
        row = prepared_row(version.prepared, self._host.settings, version.interfaces)
        row.replicas = [replica.row for replica in version.replicas]
        return row

    def _problem(self, candidate: ReplicaSet) -> str:
        """Return why *candidate* cannot take over, or ""."""
        if problem := self._host.path_problem(self, self._row_of(candidate)):
            self._host.reporter.model_failed(self.name, problem)
        return problem

    def _take(self, outcome: PrepareOutcome, files: ModelFiles | None) -> None:
        if outcome.model is None or files is None:
            self._refuse(outcome.error)
        elif self.current is None:
            self._begin(outcome.model, files)
        else:
            self._compare(self.current.prepared, outcome.model, files)
        self._launch()

    def _begin(self, prepared: PreparedModel, files: ModelFiles) -> None:
        name = prepared.name
        problem = self._host.name_problem(self, name)
        if problem := problem or self._host.call_problem(self, name, prepared.calls):
            if not self._loader.is_stopping:
                self._refuse(problem)
            files.release()
            return
        self.failure = ""
        self._versions.begin(prepared, files)
        self._loader.settle()

    def _compare(self, old: PreparedModel, new: PreparedModel, files: ModelFiles) -> None:
        if new.is_same(old):
            old.settings = new.settings  # a source may have changed
            self._host.reporter.tally.reloaded("unchanged")
            self._host.reporter.notice(notices.model_unchanged(self.label))
            files.release()
            self._loader.settle()
        elif new.name != old.name:
            files.release()
            self._refuse(f"its name is {new.name} now; restart the server, or use NAME=PATH")
        elif problem := self._host.call_problem(self, new.name, new.calls):
            files.release()
            self._refuse(problem)
        else:
            self._versions.follow(new, files)

    def _launch(self) -> None:
        if self.is_launched:
            return
        if not self.failure:
            self._host.launching()
        try:
            self._versions.launch()
        except OSError as error:
            self._refuse(f"cannot be launched: {error.strerror}")

    def _refuse(self, reason: str) -> None:
        """Report that it cannot be prepared; a version that serves continues."""
        reporter = self._host.reporter
        if self.current is None:
            self.failure = reason
            reporter.notice(notices.model_failed(self.name, reason))
        else:
            reporter.tally.reloaded("failed")
            reporter.notice(notices.reload_failed(self.name, reason, self.label))
        reporter.model_failed(self.name, reason)
        self._loader.settle()

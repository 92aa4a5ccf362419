# SPDX-License-Identifier: Apache-2.0
"""A model: its versions, and which of them answers."""

from collections.abc import Callable, Mapping

from servekit.ipc.control import Hung
from servekit.ipc.table import PREPARING, ModelRow
from servekit.settings.deployments import Replicas
from servekit.settings.models import ModelSource, expected_replicas
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.loader import Loader
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.models.saved_models import SavedModel, SavedVersion
from servekit.supervisor.models.table_rows import unprepared_row
from servekit.supervisor.models.traffic import ModelTraffic
from servekit.supervisor.models.version_source import LoadFailed, VersionSource
from servekit.supervisor.models.versions import Versions
from servekit.supervisor.models.work import ModelWork
from servekit.supervisor.os.loop import Timer
from servekit.supervisor.preparing.messages import PreparedModel

__all__ = ["Model", "saved_version"]


class Model:
    """One row of the routing table, and the workers behind it."""

    def __init__(
        self,
        host: ModelHost,
        number: int,
        source: VersionSource,
        load: "Callable[[Model], object]",
    ) -> None:
        """Load nothing yet.

        :param number: tells models apart while their names are not known.
        :param load: loads a model that was asked to load while it was busy.
        """
        self._host = host
        self._loader = Loader(host, number, lambda: self.name)
        self.number = number
        self.source = source  #: for the default version
        self.configured = ""  #: ``NAME=PATH`` of the configuration; "": it was loaded at run time
        self.versions = Versions(host, f"m{number}r")
        self.traffic = ModelTraffic(self.versions, host.changed)
        self.scaled: dict[str, Replicas] = {}  #: replicas that were set at run time, by stage
        self.first_scaled: dict[str, Replicas] = {}  #: the same, for the version to begin with
        self.previous: SavedVersion | None = None  #: the default version before
        self.kept: ModelVersion | None = None  #: it too, while it stays loaded
        self._kept_until: Timer | None = None
        self.work = ModelWork(host.loop, lambda: load(self))
        self.is_changed = False  #: at run time, by an operation
        self.failure = ""  #: why it cannot be loaded at all
        self.refusal = ""  #: why the last reload changed nothing, if it should have

    @property
    def prepared(self) -> PreparedModel | None:
        """The default version as it was prepared."""
        return self.versions.default.prepared if self.versions.default else None

    @property
    def name(self) -> str:
        """The name it is served under; provisional until it is prepared."""
        if self.prepared is not None:
            return self.prepared.name
        return ModelSource(self.source.path, self.source.name).provisional_name

    @property
    def label(self) -> str:
        """Name and version."""
        return self.prepared.label if self.prepared else self.name

    @property
    def replica_count(self) -> int:
        """Number of replicas that it has, or will have as far as is known."""
        if self.versions.default is None and not self.failure:
            return self.versions.size or expected_replicas(self._host.settings, self.name)
        return self.versions.size

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer: one replica is enough, and none if it is loaded on demand."""
        default = self.versions.default
        return default is not None and (default.is_asleep or default.is_loaded)

    @property
    def has_settled(self) -> bool:
        """Whether its first load is over, well or not."""
        default = self.versions.default
        return bool(self.failure) or (
            default is not None and (default.is_asleep or default.has_settled)
        )

    @property
    def is_stopping(self) -> bool:
        """Whether the server ends."""
        return self._loader.is_stopping

    @property
    def pids(self) -> set[int]:
        """The children that run for it now."""
        return self._loader.pids.union(*(version.pids for version in self.versions))

    def row(self) -> ModelRow:
        """Return this model's row of the routing table."""
        default, settings = self.versions.default, self._host.settings
        row = default.row if default else unprepared_row(self.name)
        row.number, row.capacity = self.number, settings.queue
        row.reason = "; ".join(self.failure.splitlines()) or (
            "" if row.replicas or row.is_asleep else PREPARING
        )
        row.versions = [version.row for version in self.versions.others]
        row.traffic = self.traffic.row
        return row

    def stop(self) -> None:
        """Let the workers leave."""
        self._loader.stop()
        self.versions.stop()

    def kill(self, reason: str) -> None:
        """Kill all that runs for it."""
        self._loader.kill()
        for version in self.versions:
            version.kill(reason)

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck."""
        for version in self.versions:
            version.hung(hung)

    # ------------------------------------------------------------------ loading

    async def prepare(self, source: VersionSource, scaled: Mapping[str, Replicas]) -> ModelVersion:
        """Return a version of *source* that has no replicas yet.

        :param scaled: numbers of replicas that were set at run time, by stage.
        :raises LoadFailed: it cannot be prepared, or calls models in a circle.
        """
        prepared, files = await self._loader.prepare(source)
        if problem := self._host.claims.call_problem(self, prepared.name, prepared.calls):
            files.release()
            raise LoadFailed(problem)
        version = self.versions.new(prepared, files, source, scaled)
        if self.versions.default is not None:
            version.begin_as(self.versions.default)
        return version

    async def try_out(self, candidate: ModelVersion, replaces: ModelVersion | None = None) -> None:
        """Load *candidate* next to what serves; no request reaches it yet.

        :param replaces: the version that leaves afterwards, as one with the same name does.
        :raises LoadFailed: a worker died, or another model has one of its paths.
        """
        await self.versions.try_out(candidate, replaces)
        if problem := self._host.claims.path_problem(self, candidate.row):
            self._host.reporter.model_failed(self.name, problem)
            self.versions.abandon(candidate)
            raise LoadFailed(problem)

    def make_default(self, version: ModelVersion) -> ModelVersion | None:
        """Let *version* answer in place of the default version, which is returned.

        What was directed to the old version by its name is directed to the new one.
        """
        old = self.versions.default
        self.versions.publish(version, as_default=True)
        self.source = version.source
        if old is not None:
            self.traffic.move(old.version, version.version)
        self._host.changed()
        return old

    def keep(self, version: ModelVersion | None, until: Timer | None = None) -> None:
        """Note that *version* is kept for a rollback, or none.

        :param until: unloads it; the timer of an earlier version is cancelled.
        """
        if self._kept_until is not None:
            self._kept_until.cancel()
        self.kept, self._kept_until = version, until

    # ------------------------------------------------------------------ across restarts

    @property
    def saved(self) -> SavedModel:
        """Its state, for a server that starts later."""
        default, named = self.versions.default, self.traffic.named
        first = SavedVersion(self.source, "", self.first_scaled)
        others = [
            saved_version(version)
            for version in self.versions.others
            if version is not self.kept or version.version in named
        ]
        return SavedModel(
            configured=self.configured,
            name=self.name,
            default=saved_version(default) if default else first,
            others=[*others, *self.versions.missing],
            previous=self.previous,
            scaled=self.scaled,
            traffic=self.traffic.wanted,
        )

    def restore(self, saved: SavedModel) -> None:
        """Restore *saved*; the versions besides the default are missing until they load."""
        self.is_changed = True
        self.scaled, self.previous = saved.scaled, saved.previous
        self.first_scaled = saved.default.scaled if saved.default else {}
        self.traffic.wanted = saved.traffic
        self.versions.miss(saved.others)


def saved_version(version: ModelVersion) -> SavedVersion:
    """Return what is needed to load *version* again."""
    return SavedVersion(version.source, version.version, version.scaled)

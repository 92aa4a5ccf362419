# SPDX-License-Identifier: Apache-2.0
"""One version of a model and the replicas that serve it: loaded, published and retired as one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

from msgspec import structs, to_builtins

from servekit.ipc.control import Ready
from servekit.ipc.table import Interface, ModelRow, SettingRow
from servekit.settings.deployments import ReplicaRange, Replicas
from servekit.supervisor.models import events
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.replica_group import ReplicaGroup
from servekit.supervisor.models.replica_keeper import ReplicaKeeper
from servekit.supervisor.models.routes import longest_way_s
from servekit.supervisor.models.table_rows import prepared_row
from servekit.supervisor.models.version_source import RUN_TIME, VersionSource
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.preparing.model_files import ModelFiles
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.replicas.replica import Replica
from servekit.supervisor.replicas.worker import Exit

__all__ = ["ModelVersion"]

CLOSE_S = 5.0  #: for a retired worker to close its service, once its last batch is over


class ModelVersion(ReplicaGroup):
    """A version of a model; keeps its replicas filled until it is stopped or retired."""

    def __init__(
        self,
        host: ModelHost,
        prepared: PreparedModel,
        files: ModelFiles,
        source: VersionSource,
        scaled: Mapping[str, Replicas],
        numbered: tuple[Iterator[int], str],
        on_change: Callable[[], object],
    ) -> None:
        """Begin without replicas.

        :param scaled: numbers of replicas that were set at run time, by stage.
        :param numbered: yields numbers that no other replica of the model has, or had; and the
            prefix of the names of their sockets.
        :param on_change: called when a worker is ready, or gone.
        """
        self._keeper = ReplicaKeeper(host, prepared, self)
        super().__init__(host, self._keeper, numbered)
        self._on_change = on_change
        self._launched_at = 0.0
        self._loaded_at: float | None = None
        self.prepared = prepared
        self.files = files
        self.source = source
        self.scaled = dict(scaled)  # at run time
        self._sizes: dict[str, int] = {}  # of stages whose number of replicas has changed
        self._spares: dict[Replica, Replica] = {}  # and the replica that each replaces
        self.is_asleep = False  #: it has no replicas until a request comes
        self.refusal = ""  #: why it sleeps though a request asked for it
        self.refusals = 0  #: how often that has happened
        self._described: ModelRow | None = None  # without what changes while it is served
        self.is_trial = False  #: a worker that dies is reported and not replaced
        self.failure = ""  #: why a worker died; not set by kills from outside, except on trial
        self.interfaces: dict[str, Interface] = {}  #: by stage, once a replica has been ready

    @property
    def version(self) -> str:
        """The version that the manifest names."""
        return self.prepared.version

    @property
    def row(self) -> ModelRow:
        """This version in the routing table."""
        if self._described is None:
            self._described = prepared_row(self.prepared, self._host.settings, self.interfaces)
        row = structs.replace(
            self._described,
            replicas=[replica.row for replica in self.replicas],
            is_asleep=self.is_asleep,
            refusal=self.refusal,
            refusals=self.refusals,
        )
        if self.scaled:
            row.settings = [self._as_scaled(setting) for setting in row.settings]
        return row

    def note_sources(self, settings: list[SettingRow]) -> None:
        """Show *settings*, whose values are the same: where they come from has changed."""
        self.prepared.settings = settings
        self._described = None

    def _as_scaled(self, setting: SettingRow) -> SettingRow:
        """Return *setting*, with the number of replicas that was set at run time."""
        names = {f"stages.{name}.replicas" if name else "replicas": name for name in self.scaled}
        if setting.name not in names:
            return setting
        value = to_builtins(self.scaled[names[setting.name]])
        return SettingRow(setting.name, value, RUN_TIME)

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer: one replica of each stage is enough."""
        serving = {each.stage for each in self.replicas if each.state is State.SERVING}
        return len(serving) == len(self.prepared.stages)

    @property
    def counts(self) -> dict[str, int]:
        """How many replicas each stage has, or will have once it is launched."""
        wanted = {stage.name: self.wanted(stage.name) for stage in self.prepared.stages}
        least = {
            name: each.min if isinstance(each, ReplicaRange) else each
            for name, each in wanted.items()
        }
        return least | self._sizes

    def wanted(self, stage: str) -> Replicas:
        """Return what the operator or the archive says about the number of replicas of *stage*."""
        prepared = self.prepared.stage(stage)
        return self.scaled.get(stage) or prepared.range or prepared.replicas

    def begin_as(self, other: "ModelVersion") -> None:
        """Begin with as many replicas as *other*, where their number follows the load."""
        for stage, count in other.counts.items():
            wanted = self.wanted(stage) if stage in self.counts else 0
            if isinstance(wanted, ReplicaRange):
                self._sizes[stage] = wanted.nearest(count)

    @property
    def size(self) -> int:
        """How many replicas it has, or will have once it is launched."""
        return sum(self.counts.values())

    @property
    def parent_pids(self) -> set[int]:
        """The preloaded parents that run, from which workers are forked."""
        return self._keeper.parent_pids

    # ------------------------------------------------------------------ life

    def launch(self) -> None:
        """Make the replicas and boot them all.

        :raises OSError: a socket cannot be made; ``close`` closes those that were.
        """
        self.is_asleep, self.refusal, self._launched_at = False, "", monotonic()
        made = [self.add(stage) for stage, count in self.counts.items() for _ in range(count)]
        for replica in made:
            replica.start()

    def resize(self, stage: str, count: int) -> list[Replica]:
        """Give *stage* *count* replicas; return those that are new, and boot.

        Those that are too many take no more batches, and leave after the one that they have.

        :raises OSError: a socket cannot be made.
        """
        self._sizes[stage] = count
        if self.is_asleep:
            return []
        spares = [spare for spare in self._spares if spare.stage == stage]
        own = [replica for replica in self.of_stage(stage) if replica not in spares]
        self._leave([*own[count:], *spares])
        added = [self.add(stage) for _ in range(count - len(own))]
        for replica in added:
            replica.start()
        self._on_change()
        return added

    def replace(self, old: Replica) -> Replica | None:
        """Load a spare that takes the place of *old* once it is ready.

        Return it, or ``None`` if one loads already or *old* is not here any more.

        :raises OSError: its socket cannot be made.
        """
        if old not in self.replicas or old in self._spares or old in self._spares.values():
            return None
        spare = self.add(old.stage, old.place)
        self._spares[spare] = old
        spare.start()
        self._on_change()
        return spare

    def _leave(self, replicas: list[Replica]) -> None:
        """Drop *replicas*; they finish what they have."""
        gone = [replica for replica in replicas if replica in self.replicas]
        for replica in gone:
            self._spares.pop(replica, None)
        self.drop(gone)
        self._retire(gone)
        self.sweep()

    def refuse(self, reason: str) -> None:
        """Stay asleep though a request asked for it."""
        self.refusal, self.refusals = reason, self.refusals + 1

    def sleep(self) -> None:
        """Let the workers leave; ``launch`` makes others when a request comes."""
        self.is_asleep = True
        self._keeper.end_parents()
        self._leave(list(self.replicas))
        self.announce_unloaded("asleep")
        self._on_change()

    def retire(self) -> None:
        """Let the workers leave once no front-end sends them anything any more."""
        self._keeper.close()
        self._retire(self.everyone)

    def _retire(self, replicas: Sequence[Replica]) -> None:
        """Let the workers of *replicas* finish what they have.

        A request may take as long as all steps of the longest route, and a stream as long as
        the grace at the end of the server.
        """
        settings = self._host.settings
        for replica in replicas:
            replica.retire()
        limit_s = max(longest_way_s(self.row) * settings.front_ends, settings.grace) + CLOSE_S

        def end() -> None:
            for replica in replicas:
                replica.kill("did not leave")

        self._host.loop.call_later(limit_s, end)

    def stop(self) -> None:
        """Let the workers leave."""
        self._keeper.close()
        super().stop()

    def close(self) -> None:
        """Close the listeners and release the files. Every replica must be stopped."""
        self.files.release()
        for replica in self.everyone:
            replica.close()

    # ------------------------------------------------------------------ events for plugins

    def announce_loaded(self, replaces: str = "") -> None:
        """Report once that this version serves, in place of the version *replaces* if given."""
        if self._loaded_at is not None or not self.is_loaded:
            return
        self._loaded_at = monotonic()
        load_s = self._loaded_at - self._launched_at
        event = events.model_loaded(self.prepared, len(self.replicas), load_s, replaces)
        self._host.reporter.event(event)

    def announce_unloaded(self, reason: str) -> None:
        """Report once that this version is gone, if it had been loaded."""
        if self._loaded_at is None:
            return
        served_s, self._loaded_at = monotonic() - self._loaded_at, None
        self._host.reporter.event(events.model_unloaded(self.prepared, served_s, reason))

    # ------------------------------------------------------------------ what its replicas report

    def on_ready(self, replica: Replica, ready: Ready) -> None:
        """Take the interface of a worker that is ready."""
        self.interfaces[replica.stage] = ready.interface
        self.interfaces |= ready.colocated
        self._described = None
        if (old := self._spares.pop(replica, None)) is not None:
            self._leave([old])
        self._on_change()

    def on_exit(self, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """Note why a worker died; one on trial has no successor, and ends the trial."""
        if wait is not None and (self.is_trial or not ended.is_killed):
            self.failure = self.failure or replica.reason
        if wait is not None and self.is_trial:
            self.stop()
        if replica in self._spares and wait is not None:
            self._leave([replica])
        self.sweep()
        self._on_change()

# SPDX-License-Identifier: Apache-2.0
"""Scales stages by their load, and replaces replicas that have grown.

Nothing happens while an operation works on the model.
"""

from collections.abc import Iterator
from time import monotonic

from servekit.ipc.model_counters import StageCounts
from servekit.ipc.operations import AUTOSCALE, DONE
from servekit.settings.deployments import ReplicaRange
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.model_version import ModelVersion
from servekit.supervisor.operations.progress import OperationFailed
from servekit.supervisor.operations.scale_rule import ScaleRule
from servekit.supervisor.operations.server import OperatedServer
from servekit.supervisor.os.resources import private_bytes
from servekit.supervisor.preparing.messages import PreparedStage
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.replicas.replica import Replica
from servekit.supervisor.reporting.notices import model_scaled, replica_grown

__all__ = ["Autoscaler"]

POLL_S = 0.5
PAUSE_S = 60.0  #: after a replica that could not be added, or after a replacement
NO_COUNTS = StageCounts(0, 0.0, 0.0, 0, 0)


class StageScaler:
    """Looks after one stage of one version."""

    def __init__(self, server: OperatedServer, version: ModelVersion, stage: PreparedStage) -> None:
        """Change nothing yet."""
        self._server, self._version, self._stage = server, version, stage
        self._rule = ScaleRule(stage.max_delay_s)
        self._newcomer: Replica | None = None
        self._scales_at = self._replaces_at = 0.0  # ``monotonic``; not before

    def wait(self) -> None:
        """Let an operation work; the rule begins again after it."""
        self._rule.forget()

    def look(self, now: float) -> None:
        """Take one step, if one is due."""
        if self._stage.max_memory and now >= self._replaces_at:
            self._replace_grown(now)
        wanted = self._version.wanted(self._stage.name)
        if isinstance(wanted, ReplicaRange) and now >= self._scales_at and self._has_settled(now):
            self._scale(now, wanted)

    # ------------------------------------------------------------------ number

    def _has_settled(self, now: float) -> bool:
        """Whether no replica is on its way; one that cannot be loaded is dropped."""
        newcomer = self._newcomer
        if newcomer is None:
            return True
        if newcomer not in self._version.replicas or newcomer.state is State.SERVING:
            self._newcomer = None
        elif newcomer.has_settled:
            self._newcomer = None
            self._resize(self._count - 1, f"a worker cannot be loaded: {newcomer.reason}")
            self._scales_at = now + PAUSE_S
        self._rule.forget()
        return False

    @property
    def _count(self) -> int:
        return self._version.counts[self._stage.name]

    def _counts(self) -> StageCounts:
        """Return the counts of the stage; its workers are busy with colocated stages too."""
        version, stage = self._version, self._stage
        found = self._server.read_counts(version.prepared.name, version.version).stages
        guests = [found.get(each.name, NO_COUNTS).predict_s for each in stage.colocated]
        own = found.get(stage.name, NO_COUNTS)
        return own._replace(predict_s=own.predict_s + sum(guests))

    def _scale(self, now: float, wanted: ReplicaRange) -> None:
        count = self._count
        target = wanted.nearest(count + self._rule.step(now, self._counts(), count))
        if target > count:
            self._grow(now, target)
        elif target < count:
            self._resize(target, "few requests")

    def _grow(self, now: float, target: int) -> None:
        try:
            self._server.require_memory(self._version, 1, 0)
            self._newcomer = self._resize(target, "requests wait")
        except (OperationFailed, OSError) as error:
            self._notice(f"requests wait, and there cannot be more replicas: {error}", "warning")
            self._scales_at = now + PAUSE_S

    def _resize(self, count: int, reason: str) -> Replica | None:
        """Set the number of replicas to *count*; return a new one, if there is one.

        :raises OSError: its socket cannot be made.
        """
        self._rule.forget()
        before = self._count
        try:
            added = self._version.resize(self._stage.name, count)
        except OSError:
            self._version.resize(self._stage.name, before)
            raise
        self._server.registry.reporter.tally.operated(AUTOSCALE, DONE)
        self._notice(f"scales from {before} to {count}: {reason}")
        return added[0] if added else None

    def _notice(self, text: str, level: str = "info") -> None:
        label, stage = self._version.prepared.label, self._stage.name
        self._server.registry.reporter.notice(model_scaled(label, stage, self._count, text, level))

    # ------------------------------------------------------------------ memory

    def _replace_grown(self, now: float) -> None:
        """Let a spare take the place of a replica that has grown beyond its bound."""
        bound, reporter = self._stage.max_memory, self._server.registry.reporter
        for replica in self._version.of_stage(self._stage.name):
            if replica.state is not State.SERVING or not replica.pids:
                continue
            used = sum(map(private_bytes, replica.pids))
            if used > bound and self._load_spare(replica):
                name = self._version.prepared.name
                reporter.notice(replica_grown(name, replica.stage, replica.index, used, bound))
                self._replaces_at = now + PAUSE_S
                return

    def _load_spare(self, replica: Replica) -> bool:
        try:
            self._server.require_memory(self._version, 1, 0)
            return self._version.replace(replica) is not None
        except (OperationFailed, OSError):  # it is tried again while the replica serves
            return False


class Autoscaler:
    """Looks after every stage whose settings have a range of replicas or a bound of memory."""

    def __init__(self, server: OperatedServer) -> None:
        """Look at nothing yet."""
        self._server = server
        self._scalers: dict[tuple[ModelVersion, str], StageScaler] = {}

    def begin(self) -> None:
        """Look now and then, as long as the loop runs."""
        self._server.loop.call_later(POLL_S, self.begin)
        self.look(monotonic())

    def look(self, now: float) -> None:
        """Let every stage take a step."""
        known, self._scalers = self._scalers, {}
        for model, version, stage in self._cared_for():
            key = (version, stage.name)
            scaler = known.get(key) or StageScaler(self._server, version, stage)
            self._scalers[key] = scaler
            if model.work.doing:
                scaler.wait()
            else:
                scaler.look(now)

    def _cared_for(self) -> Iterator[tuple[Model, ModelVersion, PreparedStage]]:
        for model in self._server.registry:
            for version in model.versions.served if not model.is_stopping else []:
                is_off = version is model.kept or version.is_asleep
                for stage in [] if is_off else version.prepared.stages:
                    if stage.max_memory or isinstance(version.wanted(stage.name), ReplicaRange):
                        yield model, version, stage

# SPDX-License-Identifier: Apache-2.0
"""Boots the workers of one version when there is room, and reports what they do."""

from collections.abc import Callable
from typing import Protocol

from servekit.ipc.control import Ready
from servekit.supervisor.models import events
from servekit.supervisor.models.boot_plan import boot_of
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.replicas.load_queue import BASE_BYTES, QueuedLoad
from servekit.supervisor.replicas.preloaded_parent import PreloadedParent
from servekit.supervisor.replicas.replica import Boot, Replica
from servekit.supervisor.replicas.worker import Exit
from servekit.supervisor.reporting.journal import LogPlace
from servekit.supervisor.reporting.notices import place_of, preloaded, subject_of

__all__ = ["ReplicaKeeper", "VersionOfReplicas"]


class VersionOfReplicas(Protocol):
    """The version of a model that the replicas serve."""

    is_trial: bool  #: a worker that dies is not replaced

    @property
    def pids(self) -> set[int]:
        """Its workers that run now."""

    @property
    def counts(self) -> dict[str, int]:
        """How many replicas each stage has."""

    def on_ready(self, replica: Replica, ready: Ready) -> None:
        """A worker is ready."""

    def on_exit(self, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """A worker is gone; the next one comes after *wait*, or none if it is ``None``."""


class ReplicaKeeper:
    """The ``Owner`` of the replicas of one version."""

    def __init__(
        self, host: ModelHost, prepared: PreparedModel, version: VersionOfReplicas
    ) -> None:
        """Do nothing yet."""
        self._host = host
        self._prepared = prepared
        self._version = version
        self._parents: dict[str, PreloadedParent] = {}  # by stage
        self._is_closed = False

    def boot(self, replica: Replica) -> Boot:
        """Return what the next worker of *replica* is started with."""
        prepared, settings = self._prepared, self._host.settings
        if replica.generation > 1:
            self._host.reporter.tally.restarted(prepared.name, prepared.version)
        stage = prepared.stage(replica.stage)
        count, total = self._version.counts[stage.name], self._host.total_replicas()
        boot = boot_of(prepared, stage, settings, replica, count, total)
        parent = self._parents.get(stage.name)
        return parent.applied(boot) if parent else boot

    def _when_preloaded(self, replica: Replica, call: Callable[[], object]) -> None:
        """Call *call* when the imports of the stage of *replica* are done, if it preloads."""
        stage = self._prepared.stage(replica.stage)
        if stage.preload and stage.name not in self._parents and not self._is_closed:
            subject, reporter = subject_of(self._prepared.name, stage.name, 0), self._host.reporter
            place = place_of(self._prepared.label, stage.name)

            def settled(import_s: float | None, reason: str) -> None:
                reporter.notice(preloaded(self._prepared.name, stage.name, import_s, reason))

            try:
                self._parents[stage.name] = PreloadedParent(
                    self._host.loop,
                    self.boot(replica),
                    on_line=lambda line: reporter.line(subject, line, place),
                    on_settled=settled,
                )
            except OSError as error:
                settled(None, str(error.strerror))
        parent = self._parents.get(stage.name)
        if parent:
            parent.when_settled(call)
        else:
            call()

    @property
    def parent_pids(self) -> set[int]:
        """The preloaded parents that run."""
        return {parent.pid for parent in self._parents.values() if parent.pid is not None}

    def end_parents(self) -> None:
        """End the preloaded parents; the next worker of each stage has a new one."""
        for parent in self._parents.values():
            parent.close()
        self._parents.clear()

    def close(self) -> None:
        """End the preloaded parents: no worker is started any more."""
        self._is_closed = True
        for parent in self._parents.values():
            parent.close()

    def await_turn(self, replica: Replica, *, is_urgent: bool) -> None:
        """Let *replica* boot when there is room for it."""
        reporter, name = self._host.reporter, self._prepared.name

        def begin() -> None:
            _explain(replica, "loading")
            reporter.progress(name, "loading")
            self._when_preloaded(replica, boot)

        def boot() -> None:
            if replica.state is State.STARTING:  # it may have been stopped meanwhile
                replica.boot()

        def wait(reason: str) -> None:
            _explain(replica, reason)
            if not self._version.pids:
                reporter.progress(name, reason)

        needs_bytes = BASE_BYTES + self._prepared.size_bytes
        self._host.loads.ask(QueuedLoad(replica, needs_bytes, begin, wait), is_urgent=is_urgent)

    def end_turn(self, replica: Replica) -> None:
        """Let the next replica boot, of whichever model."""
        self._host.loads.done(replica)

    def printed(self, replica: Replica, line: str) -> None:
        """Show a line that a worker printed."""
        name, version = self._prepared.name, self._prepared.version
        place = LogPlace(name, version, replica.stage, replica.index)
        subject = subject_of(name, replica.stage, replica.index)
        self._host.reporter.line(subject, line, place)

    def ready(self, replica: Replica, ready: Ready) -> None:
        """Report a worker that is ready."""
        event = events.worker_ready(self._prepared, replica, ready.load_s)
        self._host.reporter.worker_ready(event)
        self._version.on_ready(replica, ready)

    def exited(self, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """Report a worker that is gone."""
        following = None if self._version.is_trial else wait
        event = events.worker_exited(
            self._prepared, replica, ended, following, is_asked=wait is None
        )
        self._host.reporter.worker_exited(event)
        self._version.on_exit(replica, ended, wait)


def _explain(replica: Replica, reason: str) -> None:
    """Say why a new replica is not ready; why the last worker died tells more than that."""
    if not replica.generation:
        replica.reason = reason

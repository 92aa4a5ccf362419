# SPDX-License-Identifier: Apache-2.0
"""One version of a model and the replicas that serve it: loaded, published and retired as one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from servekit.ipc.control import Hung, Ready
from servekit.ipc.table import Interface, Tally
from servekit.settings import Settings
from servekit.supervisor.models.boot_plan import boot_of, label_of
from servekit.supervisor.models.routes import longest_way_s
from servekit.supervisor.models.table_rows import prepared_row
from servekit.supervisor.os.backoff import Backoff, Wait
from servekit.supervisor.os.listeners import bind_unix
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing.messages import PreparedModel, PreparedStage
from servekit.supervisor.preparing.model_files import ModelFiles
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.replicas.load_queue import BASE_BYTES, Load, LoadQueue
from servekit.supervisor.replicas.replica import Boot, Replica
from servekit.supervisor.replicas.worker import Exit
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.crash_log import CrashLog
from servekit.supervisor.reporting.journal import Journal

__all__ = ["ReplicaSet", "ReplicaSetHost"]

LEAVE_S = 5.0  #: for a retired worker to close its service, once its last batch is over


class ReplicaSetHost(Protocol):
    """What a set of replicas needs of the server it is part of."""

    settings: Settings
    journal: Journal
    crashes: CrashLog
    run_dir: Path
    loads: LoadQueue
    tally: Tally

    def total_replicas(self) -> int:
        """Return how many workers there are to be."""


class ReplicaSet:
    """Keeps its replicas filled until it is stopped or retired."""

    def __init__(
        self,
        loop: Loop,
        server: ReplicaSetHost,
        prepared: PreparedModel,
        content: ModelFiles,
        on_change: Callable[[], object],
        *,
        is_trial: bool = False,
    ) -> None:
        """Have no replica yet.

        :param on_change: called when a worker is ready, or gone.
        :param is_trial: a worker that dies is reported and not replaced.
        """
        self._loop = loop
        self._server = server
        self._on_change = on_change
        self.prepared = prepared
        self.content = content
        self.is_trial = is_trial
        self.failure = ""  #: why a worker on trial died
        self.interfaces: dict[str, Interface] = {}  #: by stage, once a replica has been ready
        self.replicas: list[Replica] = []

    @property
    def name(self) -> str:
        """The model's name."""
        return self.prepared.name

    @property
    def label(self) -> str:
        """Name and version."""
        return label_of(self.prepared)

    @property
    def is_loaded(self) -> bool:
        """Whether it can answer: one replica of each stage is enough."""
        serving = {each.stage for each in self.replicas if each.state is State.SERVING}
        return len(serving) == len(self.prepared.stages)

    @property
    def is_whole(self) -> bool:
        """Whether every replica serves."""
        return bool(self.replicas) and all(r.state is State.SERVING for r in self.replicas)

    @property
    def has_settled(self) -> bool:
        """Whether its first load is over, well or not."""
        return bool(self.replicas) and all(replica.has_settled for replica in self.replicas)

    @property
    def pids(self) -> set[int]:
        """The workers that run now."""
        return {replica.pid for replica in self.replicas if replica.pid}

    @property
    def size(self) -> int:
        """How many replicas it has, or will have once it is launched."""
        return sum(map(self._count, self.prepared.stages))

    def _count(self, stage: PreparedStage) -> int:
        return self._server.settings.replicas or stage.replicas

    # ------------------------------------------------------------------ life

    def launch(self, indexes: Iterator[int], sockets: str) -> None:
        """Make the replicas and boot them all.

        :param indexes: numbers that no other replica of the model has, or had.
        :param sockets: what the names of their sockets begin with.
        :raises OSError: there is no room for a socket; those that are there want to be closed.
        """
        for stage in self.prepared.stages:
            backoff = Backoff()
            for place, index in zip(range(self._count(stage)), indexes, strict=False):
                listener = bind_unix(self._server.run_dir / f"{sockets}{index}")
                replica = Replica(
                    self._loop, self, index, listener, backoff, place=place, stage=stage.name
                )
                self.replicas.append(replica)
        for replica in self.replicas:
            replica.start()

    def retire(self) -> None:
        """Let the workers leave once no front-end sends them anything any more.

        What was taken by its longest route may take as long as all steps of that, and a stream
        the grace that the end of the server gives.
        """
        settings = self._server.settings
        for replica in self.replicas:
            replica.retire()
        longest_s = longest_way_s(prepared_row(self.prepared, settings, self.interfaces))
        limit_s = max(longest_s * settings.front_ends, settings.grace) + LEAVE_S
        self._loop.call_later(limit_s, lambda: self.kill("did not leave"))

    def stop(self) -> None:
        """Let the workers leave."""
        for replica in self.replicas:
            replica.stop()

    def kill(self, reason: str) -> None:
        """Kill the workers."""
        for replica in self.replicas:
            replica.kill(reason)

    def close(self) -> None:
        """Close the listeners, let go of the files. Every replica must be stopped."""
        self.content.release()
        for replica in self.replicas:
            replica.close()

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck, unless it has been replaced already."""
        for replica in self.replicas:
            if (replica.index, replica.generation) == (hung.replica, hung.generation):
                replica.kill(hung.reason)

    # ------------------------------------------------------------------ owner of its replicas

    def boot(self, replica: Replica) -> Boot:
        """Return what the next worker of *replica* is started with."""
        if replica.generation > 1:
            self._server.tally.restarted(self.name)
        total = self._server.total_replicas()
        stage = next(each for each in self.prepared.stages if each.name == replica.stage)
        return boot_of(self.prepared, stage, self._server.settings, replica, total)

    def await_turn(self, replica: Replica, *, is_urgent: bool) -> None:
        """Let *replica* boot in its turn."""

        def begin() -> None:
            _explain(replica, "loading")
            self._server.journal.progress(self.name, "loading")
            replica.boot()

        def wait(reason: str) -> None:
            _explain(replica, reason)
            if not self.pids:
                self._server.journal.progress(self.name, reason)

        needs_bytes = BASE_BYTES + self.prepared.size_bytes
        self._server.loads.ask(Load(replica, needs_bytes, begin, wait), is_urgent=is_urgent)

    def end_turn(self, replica: Replica) -> None:
        """Let the next replica boot, of whichever model."""
        self._server.loads.done(replica)

    def printed(self, replica: Replica, line: str) -> None:
        """Show a line of a worker."""
        self._server.journal.line(notices.subject(self.name, replica), line)

    def ready(self, replica: Replica, ready: Ready) -> None:
        """Take the interface of a worker that is ready."""
        self.interfaces[replica.stage] = ready.interface
        self.interfaces |= ready.beside
        self._server.journal.progress(self.name, "")
        self._server.journal.notice(notices.worker_ready(self.name, replica, ready))
        self._on_change()

    def exited(self, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """Report a worker that is gone."""
        if wait is not None:
            following = None if self.is_trial else wait
            self.failure = self.failure or replica.reason
            self._server.journal.progress(self.name, "")
            self._server.journal.notice(notices.worker_exited(self.name, replica, ended, following))
            self._server.crashes.worker_exited(self.name, replica, ended, following)
        self._on_change()


def _explain(replica: Replica, reason: str) -> None:
    """Say why a new replica is not ready; why the last worker died tells more than that."""
    if not replica.generation:
        replica.reason = reason

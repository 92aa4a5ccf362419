# SPDX-License-Identifier: Apache-2.0
"""One version of a model and the replicas that serve it: loaded, published and retired as one."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from servekit.ipc.control import Hung, Ready
from servekit.supervisor.models import events
from servekit.supervisor.models.boot_plan import boot_of
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.routes import longest_way_s
from servekit.supervisor.models.table_rows import prepared_row
from servekit.supervisor.os.backoff import Backoff, Wait
from servekit.supervisor.os.listeners import bind_unix
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.preparing.model_files import ModelFiles
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.replicas.load_queue import BASE_BYTES, QueuedLoad
from servekit.supervisor.replicas.replica import Boot, Replica
from servekit.supervisor.replicas.worker import Exit
from servekit.supervisor.reporting.notices import subject_of

if TYPE_CHECKING:
    from servekit.ipc.table import Interface

__all__ = ["ReplicaSet"]

LEAVE_S = 5.0  #: for a retired worker to close its service, once its last batch is over


class ReplicaSet:
    """Keeps its replicas filled until it is stopped or retired."""

    def __init__(
        self,
        host: ModelHost,
        prepared: PreparedModel,
        files: ModelFiles,
        on_change: Callable[[], object],
        *,
        is_trial: bool = False,
    ) -> None:
        """Have no replica yet.

        :param on_change: called when a worker is ready, or gone.
        :param is_trial: a worker that dies is reported and not replaced.
        """
        self._host = host
        self._on_change = on_change
        self._launched_at = 0.0
        self._loaded_at: float | None = None
        self.prepared = prepared
        self.files = files
        self.is_trial = is_trial
        self.failure = ""  #: why a worker on trial died
        self.interfaces: dict[str, Interface] = {}  #: by stage, once a replica has been ready
        self.replicas: list[Replica] = []

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
        return sum(stage.replicas for stage in self.prepared.stages)

    # ------------------------------------------------------------------ life

    def launch(self, indexes: Iterator[int], sockets: str) -> None:
        """Make the replicas and boot them all.

        :param indexes: numbers that no other replica of the model has, or had.
        :param sockets: the prefix of the names of their sockets.
        :raises OSError: a socket cannot be made; ``close`` closes those that were.
        """
        self._launched_at = monotonic()
        for stage in self.prepared.stages:
            backoff = Backoff()
            for place, index in zip(range(stage.replicas), indexes, strict=False):
                listener = bind_unix(self._host.run_dir / f"{sockets}{index}")
                replica = Replica(
                    self._host.loop, self, index, listener, backoff, place=place, stage=stage.name
                )
                self.replicas.append(replica)
        for replica in self.replicas:
            replica.start()

    def retire(self) -> None:
        """Let the workers leave once no front-end sends them anything any more.

        A request may take as long as all steps of the longest route, and a stream as long as
        the grace at the end of the server.
        """
        settings = self._host.settings
        for replica in self.replicas:
            replica.retire()
        longest_s = longest_way_s(prepared_row(self.prepared, settings, self.interfaces))
        limit_s = max(longest_s * settings.front_ends, settings.grace) + LEAVE_S
        self._host.loop.call_later(limit_s, lambda: self.kill("did not leave"))

    def stop(self) -> None:
        """Let the workers leave."""
        for replica in self.replicas:
            replica.stop()

    def kill(self, reason: str) -> None:
        """Kill the workers."""
        for replica in self.replicas:
            replica.kill(reason)

    def close(self) -> None:
        """Close the listeners and release the files. Every replica must be stopped."""
        self.files.release()
        for replica in self.replicas:
            replica.close()

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck, unless it has been replaced already."""
        for replica in self.replicas:
            if (replica.index, replica.generation) == (hung.replica, hung.generation):
                replica.kill(hung.reason)

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

    # ------------------------------------------------------------------ owner of its replicas

    def boot(self, replica: Replica) -> Boot:
        """Return what the next worker of *replica* is started with."""
        if replica.generation > 1:
            self._host.reporter.tally.restarted(self.prepared.name)
        stage = next(each for each in self.prepared.stages if each.name == replica.stage)
        total = self._host.total_replicas()
        return boot_of(self.prepared, stage, self._host.settings, replica, total)

    def await_turn(self, replica: Replica, *, is_urgent: bool) -> None:
        """Let *replica* boot when there is room for it."""
        reporter, name = self._host.reporter, self.prepared.name

        def begin() -> None:
            _explain(replica, "loading")
            reporter.progress(name, "loading")
            replica.boot()

        def wait(reason: str) -> None:
            _explain(replica, reason)
            if not self.pids:
                reporter.progress(name, reason)

        needs_bytes = BASE_BYTES + self.prepared.size_bytes
        self._host.loads.ask(QueuedLoad(replica, needs_bytes, begin, wait), is_urgent=is_urgent)

    def end_turn(self, replica: Replica) -> None:
        """Let the next replica boot, of whichever model."""
        self._host.loads.done(replica)

    def printed(self, replica: Replica, line: str) -> None:
        """Show a line that a worker printed."""
        subject = subject_of(self.prepared.name, replica.stage, replica.index)
        self._host.reporter.line(subject, line)

    def ready(self, replica: Replica, ready: Ready) -> None:
        """Take the interface of a worker that is ready."""
        self.interfaces[replica.stage] = ready.interface
        self.interfaces |= ready.colocated
        event = events.worker_ready(self.prepared, replica, ready.load_s)
        self._host.reporter.worker_ready(event)
        self._on_change()

    def exited(self, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """Report a worker that is gone."""
        if wait is not None:
            self.failure = self.failure or replica.reason
        following = None if self.is_trial else wait
        event = events.worker_exited(
            self.prepared, replica, ended, following, is_asked=wait is None
        )
        self._host.reporter.worker_exited(event)
        self._on_change()


def _explain(replica: Replica, reason: str) -> None:
    """Say why a new replica is not ready; why the last worker died tells more than that."""
    if not replica.generation:
        replica.reason = reason

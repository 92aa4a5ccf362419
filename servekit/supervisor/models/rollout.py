# SPDX-License-Identifier: Apache-2.0
"""The versions of one model: the one that serves, the one that loads, those that leave."""

import itertools
from collections.abc import Callable, Iterator

from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.models.replica_set import ReplicaSet
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.preparing.model_files import ModelFiles
from servekit.supervisor.reporting import notices

__all__ = ["Rollout"]


class Rollout:
    """Replaces the old version by the new one as soon as that is ready, and not before."""

    def __init__(
        self,
        host: ModelHost,
        sockets: str,
        problem: Callable[[ReplicaSet], str],
        on_settled: Callable[[], object],
    ) -> None:
        """Have no version yet.

        :param sockets: the prefix of the names of the model's sockets.
        :param problem: returns why a version whose workers are ready cannot take over, or "".
        :param on_settled: called when a new version serves, or has failed to.
        """
        self._host = host
        self._sockets = sockets
        self._problem = problem
        self._on_settled = on_settled
        self._indexes = itertools.count()  # for replicas: no index is used twice
        self._next: ReplicaSet | None = None
        self._leaving: list[ReplicaSet] = []
        self._is_stopping = False
        self.current: ReplicaSet | None = None

    def __iter__(self) -> Iterator[ReplicaSet]:
        """Iterate over all versions that have workers."""
        known = (self.current, self._next, *self._leaving)
        return iter([replicas for replicas in known if replicas is not None])

    def begin(self, prepared: PreparedModel, files: ModelFiles) -> None:
        """Take the first version; ``launch`` boots it."""
        self.current = ReplicaSet(self._host, prepared, files, self._on_change)

    def launch(self) -> None:
        """Boot the first version.

        :raises OSError: its sockets cannot be made; there is no version then.
        """
        if self.current is not None:
            try:
                self.current.launch(self._indexes, self._sockets)
            except OSError:
                self.current.close()
                self.current = None
                raise

    def follow(self, prepared: PreparedModel, files: ModelFiles) -> None:
        """Load a version next to the current one; it takes over once all its replicas serve."""
        self._next = ReplicaSet(self._host, prepared, files, self._on_change, is_trial=True)
        try:
            self._next.launch(self._indexes, self._sockets)
        except OSError as error:  # no descriptor is left for a socket, or no room on the disk
            self._next.failure = f"cannot be launched: {error.strerror}"
            self._on_change()

    def stop(self) -> None:
        """Let the workers leave."""
        self._is_stopping = True
        for replicas in self:
            replicas.stop()

    def _on_change(self) -> None:
        candidate = self._next
        if candidate is not None and not self._is_stopping:
            if candidate.is_whole and not candidate.failure:
                candidate.failure = self._problem(candidate)
            if candidate.failure:
                self._abandon(candidate)
            elif candidate.is_whole:
                self._switch_to(candidate)
        for gone in [replicas for replicas in self._leaving if not replicas.pids]:
            self._leaving.remove(gone)
            gone.announce_unloaded("replaced")
            gone.files.discard()
            gone.close()
        if self.current is not None:
            self.current.announce_loaded()
            if self._is_stopping and not self.current.pids:
                self.current.announce_unloaded("stopped")
        self._host.changed()

    def _switch_to(self, candidate: ReplicaSet) -> None:
        assert self.current is not None
        old, self.current, self._next = self.current, candidate, None
        candidate.is_trial = False
        candidate.announce_loaded(replaces=old.prepared.version)
        reporter = self._host.reporter
        reporter.tally.reloaded("loaded")
        notice = notices.model_reloaded(old.prepared.label, candidate.prepared.label)
        self._host.changed()
        self._host.loop.defer(lambda: reporter.notice(notice))  # once the table is sent
        self._leaving.append(old)
        old.retire()
        self._on_settled()

    def _abandon(self, candidate: ReplicaSet) -> None:
        assert self.current is not None
        self._next = None
        reporter, label = self._host.reporter, candidate.prepared.label
        reporter.tally.reloaded("failed")
        reporter.notice(
            notices.reload_failed(label, candidate.failure, self.current.prepared.label)
        )
        self._leaving.append(candidate)
        candidate.stop()
        self._on_settled()

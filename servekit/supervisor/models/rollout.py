# SPDX-License-Identifier: Apache-2.0
"""The versions of one model: the one that serves, the one that loads, those that leave."""

import itertools
from collections.abc import Callable
from typing import Protocol

from servekit.ipc.control import Hung
from servekit.supervisor.models.replica_set import ReplicaSet, ReplicaSetHost
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.preparing.model_files import ModelFiles
from servekit.supervisor.reporting import notices

__all__ = ["Rollout", "RolloutHost"]


class RolloutHost(ReplicaSetHost, Protocol):
    """What the versions of a model need of the server they are part of."""

    def changed(self) -> None:
        """The routing table is not what it was."""


class Rollout:
    """Lets a new version take the place of the old one when it is ready, and not before."""

    def __init__(
        self,
        loop: Loop,
        server: RolloutHost,
        sockets: str,
        problem: Callable[[ReplicaSet], str],
        on_settled: Callable[[], object],
    ) -> None:
        """Have no version yet.

        :param sockets: what the names of the model's sockets begin with.
        :param problem: says why a version whose workers are ready cannot take over, or "".
        :param on_settled: called when a new version serves, or has failed to.
        """
        self._loop = loop
        self._server = server
        self._sockets = sockets
        self._problem = problem
        self._on_settled = on_settled
        self._indexes = itertools.count()  # of replicas: none is used twice
        self._next: ReplicaSet | None = None
        self._leaving: list[ReplicaSet] = []
        self._is_stopping = False
        self.current: ReplicaSet | None = None

    @property
    def pids(self) -> set[int]:
        """The workers that run now, of every version."""
        return set().union(*(replicas.pids for replicas in self._all()))

    def begin(self, prepared: PreparedModel, content: ModelFiles) -> None:
        """Take the first version; ``launch`` boots it."""
        self.current = ReplicaSet(self._loop, self._server, prepared, content, self._on_change)

    def launch(self) -> None:
        """Boot the first version.

        :raises OSError: there is no room for its sockets, so the version was not made.
        """
        if self.current is not None:
            try:
                self.current.launch(self._indexes, self._sockets)
            except OSError:
                self.current.close()
                self.current = None
                raise

    def follow(self, prepared: PreparedModel, content: ModelFiles) -> None:
        """Load a version beside the current one; it takes over once all its replicas serve."""
        self._next = ReplicaSet(
            self._loop, self._server, prepared, content, self._on_change, is_trial=True
        )
        try:
            self._next.launch(self._indexes, self._sockets)
        except OSError as error:  # no descriptor is left for a socket, or no room on the disk
            self._next.failure = f"cannot be launched: {error.strerror}"
            self._on_change()

    def stop(self) -> None:
        """Let the workers leave."""
        self._is_stopping = True
        for replicas in self._all():
            replicas.stop()

    def kill(self, reason: str) -> None:
        """Kill the workers."""
        for replicas in self._all():
            replicas.kill(reason)

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck."""
        for replicas in self._all():
            replicas.hung(hung)

    def _all(self) -> list[ReplicaSet]:
        known = (self.current, self._next, *self._leaving)
        return [replicas for replicas in known if replicas is not None]

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
            gone.content.discard()
            gone.close()
        self._server.changed()

    def _switch_to(self, candidate: ReplicaSet) -> None:
        assert self.current is not None
        old, self.current, self._next = self.current, candidate, None
        candidate.is_trial = False
        self._server.tally.reloaded("loaded")
        notice = notices.model_reloaded(old.label, candidate.label)
        self._server.changed()
        self._loop.defer(lambda: self._server.journal.notice(notice))  # once the table is sent
        self._leaving.append(old)
        old.retire()
        self._on_settled()

    def _abandon(self, candidate: ReplicaSet) -> None:
        assert self.current is not None
        self._next = None
        self._server.tally.reloaded("failed")
        notice = notices.reload_failed(candidate.label, candidate.failure, self.current.label)
        self._server.journal.notice(notice)
        self._leaving.append(candidate)
        candidate.stop()
        self._on_settled()

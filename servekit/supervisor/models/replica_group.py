# SPDX-License-Identifier: Apache-2.0
"""The replicas of all stages of one version: more, fewer, and their end."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import count

from servekit.ipc.control import Hung
from servekit.supervisor.models.host import ModelHost
from servekit.supervisor.os.backoff import Backoff
from servekit.supervisor.os.listeners import bind_unix
from servekit.supervisor.replicas.lifecycle import State
from servekit.supervisor.replicas.replica import Owner, Replica

__all__ = ["ReplicaGroup"]


class ReplicaGroup:
    """Makes replicas and sockets for them, and closes those that are gone."""

    def __init__(self, host: ModelHost, owner: Owner, numbered: tuple[Iterator[int], str]) -> None:
        """Begin without replicas.

        :param numbered: yields numbers that no other replica of the model has, or had; and the
            prefix of the names of their sockets.
        """
        self._host, self._owner = host, owner
        self._indexes, self._sockets = numbered
        self._backoffs: defaultdict[str, Backoff] = defaultdict(Backoff)  # by stage
        self._retired: list[Replica] = []  # by a smaller scale; their workers leave
        self.replicas: list[Replica] = []

    @property
    def everyone(self) -> list[Replica]:
        """The replicas, and those that a smaller scale has left over."""
        return [*self.replicas, *self._retired]

    @property
    def is_whole(self) -> bool:
        """Whether every replica serves."""
        return bool(self.replicas) and all(r.state is State.SERVING for r in self.replicas)

    @property
    def has_settled(self) -> bool:
        """Whether its first load is over, well or not."""
        return bool(self.replicas) and all(replica.has_settled for replica in self.replicas)

    @property
    def is_shrinking(self) -> bool:
        """Whether workers of a larger scale still have something to do."""
        return bool(self._retired)

    @property
    def pids(self) -> set[int]:
        """The workers that run now."""
        return set[int]().union(*(replica.pids for replica in self.everyone))

    def of_stage(self, stage: str) -> list[Replica]:
        """Return the replicas of *stage*, those with the lowest places first."""
        own = [replica for replica in self.replicas if replica.stage == stage]
        return sorted(own, key=lambda replica: replica.place)

    def add(self, stage: str, place: int | None = None) -> Replica:
        """Return a new replica of *stage*, which is not started yet.

        :param place: ``None`` takes the first one that is free.
        :raises OSError: its socket cannot be made.
        """
        index, loop, backoff = next(self._indexes), self._host.loop, self._backoffs[stage]
        listener = bind_unix(self._host.run_dir / f"{self._sockets}{index}")
        if place is None:
            taken = {replica.place for replica in self.of_stage(stage)}
            place = next(each for each in count() if each not in taken)
        replica = Replica(loop, self._owner, index, listener, backoff, place=place, stage=stage)
        self.replicas.append(replica)
        return replica

    def drop(self, replicas: list[Replica]) -> None:
        """Move *replicas* to the retired ones."""
        for replica in replicas:
            self.replicas.remove(replica)
            self._retired.append(replica)

    def sweep(self) -> None:
        """Close the dropped replicas whose workers are gone."""
        for gone in [each for each in self._retired if each.state is State.STOPPED]:
            self._retired.remove(gone)
            gone.close()

    def stop(self) -> None:
        """Let the workers leave."""
        for replica in self.everyone:
            replica.stop()

    def kill(self, reason: str) -> None:
        """Kill the workers."""
        for replica in self.everyone:
            replica.kill(reason)

    def hung(self, hung: Hung) -> None:
        """Kill a worker that a front-end found stuck, unless it has been replaced already."""
        for replica in self.everyone:
            if (replica.index, replica.generation) == (hung.replica, hung.generation):
                replica.kill(hung.reason)

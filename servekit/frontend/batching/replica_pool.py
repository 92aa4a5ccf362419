# SPDX-License-Identifier: Apache-2.0
"""The replicas of one model on this front-end: which there are, and which leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from servekit.frontend.batching.replica import ReplicaProxy
    from servekit.ipc.table import ReplicaRow

__all__ = ["ReplicaPool"]


class ReplicaPool:
    """Follows the routing table. Replicas of an older version serve until others can."""

    def __init__(self, make: Callable[[], ReplicaProxy]) -> None:
        """Begin empty; *make* adds replicas."""
        self._make = make
        self._current: dict[int, ReplicaProxy] = {}
        self.leaving: list[ReplicaProxy] = []  #: replicas of an older version

    def __iter__(self) -> Iterator[ReplicaProxy]:
        """Yield those that the table names and those that leave."""
        return iter([*self._current.values(), *self.leaving])

    @property
    def current(self) -> list[ReplicaProxy]:
        """Those that the table names."""
        return list(self._current.values())

    def part(self, rows: Sequence[ReplicaRow]) -> None:
        """Remove those that *rows* do not name; they leave.

        One with the same index and another address belongs to the same version, loaded again.
        """
        named = {(row.index, row.address) for row in rows}
        ours = [each.row for each in self.current]
        gone = [row.index for row in ours if (row.index, row.address) not in named]
        self.leaving += [self._current.pop(index) for index in gone]

    def follow(self, rows: Sequence[ReplicaRow]) -> None:
        """Open channels to the workers of *rows*."""
        for row in rows:
            if row.index not in self._current:
                self._current[row.index] = self._make()
            self._current[row.index].update(row)

    def hand_over(self) -> bool:
        """Retire those that leave if another replica answers; return whether they were."""
        if not self.leaving or not any(replica.is_live for replica in self._current.values()):
            return False
        for replica in self.leaving:
            replica.retire()
        self.leaving = [replica for replica in self.leaving if replica.tasks]
        return True

    def disband(self) -> None:
        """Retire all of them: the version is gone."""
        self.part(())
        for replica in self.leaving:
            replica.retire()
        self.leaving = [replica for replica in self.leaving if replica.tasks]

    @property
    def has_channel(self) -> bool:
        """Whether a worker can be reached."""
        return any(replica.channel is not None for replica in self)

    @property
    def running(self) -> int:
        """Number of tasks that workers have."""
        return sum(len(replica.tasks) for replica in self)

    def trim(self) -> None:
        """Unmap the answers that were read; those that are still needed are mapped again."""
        for replica in self:
            if replica.channel is not None:
                replica.channel.trim()

# SPDX-License-Identifier: Apache-2.0
"""What this front-end knows of the models: a batcher for each stage of each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.ipc.table import stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.batching.replica import Replica
    from servekit.ipc.table import ModelRow, Table

    #: the label of a stage, and what tells its versions apart
    Key = tuple[str, int]

__all__ = ["Models"]


class Models:
    """Follows the routing table.

    A version of a model with stages has batchers of its own, so that no request meets
    stages of two versions; those of the version before serve until they hold nothing.
    """

    def __init__(
        self,
        make_batcher: Callable[[ModelRow], Batcher],
        make_replica: Callable[[Batcher], Replica],
    ) -> None:
        """Know nothing yet."""
        self._make_batcher = make_batcher
        self._make_replica = make_replica
        self._batchers: dict[Key, Batcher] = {}
        self._leaving: list[Batcher] = []

    def __iter__(self) -> Iterator[Batcher]:
        """Yield those of the table, and those that are to leave."""
        return iter([*self._batchers.values(), *self._leaving])

    def update(self, table: Table) -> None:
        """Take over what the routing table says now."""
        known: dict[Key, Batcher] = {}
        for row in table.models:
            for stage in stage_rows(row):
                key = _key(stage)
                known[key] = self._update_stage(key, stage)
        gone = [batcher for key, batcher in self._batchers.items() if key not in known]
        labels = {label for label, _ in known}
        self._batchers = known
        for batcher in gone:
            if batcher.row.label in labels:
                self._leaving.append(batcher)
            else:
                batcher.close()

    def by_label(self) -> dict[str, Batcher]:
        """Return those of the table by the labels of their stages."""
        return {label: batcher for (label, _), batcher in self._batchers.items()}

    def sweep(self, now: float) -> None:
        """Let time pass, and what is to leave go."""
        for batcher in self:
            batcher.expire(now)
        for batcher in [each for each in self._leaving if each.is_empty]:
            self._leaving.remove(batcher)
            batcher.close()

    def _update_stage(self, key: Key, row: ModelRow) -> Batcher:
        batcher = self._batchers.get(key)
        if batcher is None:
            batcher = self._make_batcher(row)
        else:
            gone = batcher.replicas.keys() - {place.index for place in row.replicas}
            batcher.part_with(gone)
            batcher.update(row)
        for place in row.replicas:
            replica = batcher.replicas.get(place.index)
            if replica is None:
                batcher.replicas[place.index] = replica = self._make_replica(batcher)
            replica.update(place)
        batcher.hand_over()
        return batcher


def _key(row: ModelRow) -> Key:
    """Return what no other version of the stage has: the number of a replica is used once."""
    is_versioned = row.stage and row.replicas
    return row.label, row.replicas[0].index if is_versioned else -1

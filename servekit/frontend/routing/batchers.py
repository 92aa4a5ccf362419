# SPDX-License-Identifier: Apache-2.0
"""The batchers of one front-end: one for each stage of each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.ipc.table import stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servekit.errors import ServekitError
    from servekit.frontend.batching.batcher import Batcher
    from servekit.ipc.table import ModelRow, Table

    #: the label of a stage, and what tells its versions apart
    Key = tuple[str, int]

__all__ = ["Batchers"]


class Batchers:
    """Follows the routing table.

    A version of a model with stages has batchers of its own, so that no request meets stages of
    two versions; those of the version before serve until they hold nothing.
    """

    def __init__(self, make: Callable[[ModelRow], Batcher]) -> None:
        """Be empty; *make* adds batchers."""
        self._make = make
        self._batchers: dict[Key, Batcher] = {}
        self._leaving: list[Batcher] = []
        self._is_draining = False

    def __iter__(self) -> Iterator[Batcher]:
        """Yield those of the table, and those that are to leave."""
        return iter([*self._batchers.values(), *self._leaving])

    def update(self, table: Table) -> None:
        """Take over what the routing table says now."""
        known: dict[Key, Batcher] = {}
        for row in table.models:
            for stage in stage_rows(row):
                known[_key(stage)] = self._update_stage(_key(stage), stage)
        gone = [batcher for key, batcher in self._batchers.items() if key not in known]
        labels = {label for label, _ in known}
        self._batchers = known
        for batcher in gone:
            if batcher.row.label in labels:
                self._leaving.append(batcher)
            else:
                batcher.close()

    def _update_stage(self, key: Key, row: ModelRow) -> Batcher:
        batcher = self._batchers.get(key)
        if batcher is not None:
            batcher.update(row)
            return batcher
        batcher = self._make(row)
        if self._is_draining:
            batcher.drain()
        return batcher

    def by_label(self) -> dict[str, Batcher]:
        """Return those of the table by the labels of their stages."""
        return {label: batcher for (label, _), batcher in self._batchers.items()}

    def sweep(self, now: float) -> None:
        """Let time pass; close those that are to leave once they hold nothing."""
        for batcher in self:
            batcher.sweep(now)
        for batcher in [each for each in self._leaving if each.is_empty]:
            self._leaving.remove(batcher)
            batcher.close()

    def drain(self) -> None:
        """Try nothing again from now on: the front-end shuts down."""
        self._is_draining = True
        for batcher in self:
            batcher.drain()

    def fail_all(self, error: ServekitError) -> None:
        """Answer all tasks with *error*."""
        for batcher in self:
            batcher.fail_all(error)


def _key(row: ModelRow) -> Key:
    """Return what no other version of the stage has: the number of a replica is used once."""
    is_versioned = row.stage and row.replicas
    return row.label, row.replicas[0].index if is_versioned else -1

# SPDX-License-Identifier: Apache-2.0
"""The batchers of one front-end: one for each stage of each version of each model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from servekit.ipc.table import stage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servekit.errors import ServekitError
    from servekit.frontend.batching.batcher import Batcher
    from servekit.ipc.table import ModelRow, Table

__all__ = ["Batchers"]


class BatcherKey(NamedTuple):
    """Identifies a batcher."""

    label: str  #: the model and the stage
    version: str
    first_replica: int  #: tells apart two loads of one version with stages; -1 otherwise


class ModelBatchers(NamedTuple):
    """The batchers of one model."""

    row: ModelRow
    found: dict[BatcherKey, Batcher]
    defaults: dict[str, Batcher]  #: those of the default version, by label of the stage


class Batchers:
    """Follows the routing table.

    Versions share no batchers, so that no request meets stages of two versions. When a version
    leaves the table, its batchers answer the tasks that they hold, then they close.
    """

    def __init__(self, make: Callable[[ModelRow], Batcher]) -> None:
        """Begin empty; *make* adds batchers."""
        self._make = make
        self._models: dict[str, ModelBatchers] = {}
        self._batchers: dict[BatcherKey, Batcher] = {}
        self.defaults: dict[str, Batcher] = {}  #: the default versions, by label of the stage
        self._leaving: list[Batcher] = []
        self._is_draining = False

    def __iter__(self) -> Iterator[Batcher]:
        """Yield those of the table, and those that are to leave."""
        return iter([*self._batchers.values(), *self._leaving])

    def update(self, table: Table) -> None:
        """Take over what the routing table says now. A row that is the same object is unchanged."""
        models = [self._of_model(row) for row in table.models]
        known: dict[BatcherKey, Batcher] = {}
        self.defaults = {}
        for model in models:
            known.update(model.found)
            self.defaults.update(model.defaults)
        self._leaving += [each for key, each in self._batchers.items() if key not in known]
        self._batchers = known
        self._models = {model.row.name: model for model in models}
        for batcher in self:
            batcher.share(table.front_ends)

    def _of_model(self, row: ModelRow) -> ModelBatchers:
        before = self._models.get(row.name)
        if before is not None and before.row is row:
            return before
        defaults = {_key(stage): self._update_stage(stage) for stage in stage_rows(row)}
        found = dict(defaults)
        for version in row.versions:
            found |= {_key(stage): self._update_stage(stage) for stage in stage_rows(version)}
        return ModelBatchers(row, found, {key.label: each for key, each in defaults.items()})

    def _update_stage(self, row: ModelRow) -> Batcher:
        key = _key(row)
        batcher = self._batchers.get(key) or self._returned(key)
        if batcher is not None:
            batcher.update(row)
            return batcher
        batcher = self._make(row)
        if self._is_draining:
            batcher.drain()
        return batcher

    def _returned(self, key: BatcherKey) -> Batcher | None:
        """Return the batcher of a version that had not left yet when it came back."""
        found = next((each for each in self._leaving if _key(each.row) == key), None)
        if found is not None:
            self._leaving.remove(found)
        return found

    def of_version(self, row: ModelRow) -> dict[str, Batcher]:
        """Return those of the version *row* by the labels of its stages."""
        return {stage.label: self._batchers[_key(stage)] for stage in stage_rows(row)}

    def live_replicas(self, label: str, version: str = "") -> int:
        """Return how many replicas answer for *version* of *label*; "" is the default version.

        For the default version, those of the version before count until they have left: the
        channels of the new one may take a moment to open.
        """
        if version:
            found = [each for each in self if each.row.version == version]
        else:
            found = [*filter(None, [self.defaults.get(label)]), *self._leaving]
        ours = [batcher for batcher in found if batcher.row.label == label]
        return sum(replica.is_live for batcher in ours for replica in batcher.pool)

    def sweep(self, now: float) -> None:
        """Let time pass; close those that are to leave once they hold nothing."""
        for batcher in self:
            batcher.sweep(now)
        for batcher in [each for each in self._leaving if self._has_left(each)]:
            self._leaving.remove(batcher)
            batcher.close()

    def _has_left(self, batcher: Batcher) -> bool:
        """Let *batcher* leave once another version answers; return whether it has."""
        successor = self.defaults.get(batcher.row.label)
        is_needed = successor is not None and not any(each.is_live for each in successor.pool)
        if is_needed and batcher.pool.has_channel:
            return False
        # a part of a request must not go to a stage of another version
        return batcher.leave(None if batcher.row.stage else successor)

    def drain(self) -> None:
        """Try nothing again from now on: the server shuts down."""
        self._is_draining = True
        for batcher in self:
            batcher.drain()

    def fail_all(self, error: ServekitError) -> None:
        """Answer all tasks with *error*."""
        for batcher in self:
            batcher.fail_all(error)


def _key(row: ModelRow) -> BatcherKey:
    """Return the key of the batcher of *row*; the number of a replica is used once."""
    is_told_apart = row.stage and row.replicas and not row.may_sleep  # others when it wakes
    first = row.replicas[0].index if is_told_apart else -1
    return BatcherKey(row.label, row.version, first)

# SPDX-License-Identifier: Apache-2.0
"""Follows the routing table: batchers, channels to workers, and the route of each path."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.metrics.known import KnownMetrics
from servekit.frontend.middleware.cache import Caches
from servekit.frontend.routing.batchers import Batchers
from servekit.frontend.routing.paths import Paths
from servekit.frontend.routing.traffic import Traffic
from servekit.frontend.routing.version_routes import VersionRoutes
from servekit.ipc.model_counters import Label
from servekit.ipc.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.frontend.batching.environment import BatchingEnvironment
    from servekit.frontend.routing.router import Router
    from servekit.ipc.counter_share import Share
    from servekit.ipc.table import ModelRow

__all__ = ["Routing"]

log = logging.getLogger("servekit.frontend")


class ModelRoutes(NamedTuple):
    """The paths that answer for one model, and the reasons of those that do not."""

    row: ModelRow
    paths: Paths
    unresolved: Mapping[str, list[str]]  #: why routes do not answer, by model or version


class Routing:
    """Follows the supervisor's table; belongs to one ``FrontEnd``."""

    def __init__(self, environment: BatchingEnvironment, share: Share, router: Router) -> None:
        """Start without a model.

        :param share: where this front-end counts.
        :param router: gets the routes.
        """
        self.table = Table([])
        self.has_table = False
        self.router = router
        self.batchers = Batchers(self._make_batcher)
        self.metrics = KnownMetrics(share)
        self._environment = environment
        self._caches = Caches()
        self._traffic = Traffic(environment.loop)
        self._models: dict[str, ModelRoutes] = {}
        self._told: dict[str, list[str]] = {}  #: the problems of routes that were logged

    # ------------------------------------------------------------ what is known

    @property
    def is_set_up(self) -> bool:
        """Whether there is a table, and a channel to every worker that serves by it."""
        replicas = [each for batcher in self.batchers for each in batcher.pool.current]
        return self.has_table and all(
            replica.is_live for replica in replicas if replica.row.is_serving
        )

    def live_replicas(self, model: str, version: str = "") -> int:
        """Return how many replicas of *model*, or of the stage of this label, answer."""
        return self.batchers.live_replicas(model, version)

    def unresolved(self, model: str) -> list[str]:
        """Return why routes of *model* do not answer, one line for each that does not."""
        return self._models[model].unresolved.get(model, []) if model in self._models else []

    # ------------------------------------------------------------ table -> routes

    def update(self, table: Table) -> None:
        """Take over what the supervisor says now."""
        self.table, self.has_table = table, True
        self.batchers.update(table)
        served = {(each.row.name, each.row.version) for each in self.batchers}
        self.metrics.keep(served)
        if self._environment.traces is not None:
            self._environment.traces.exemplars.keep(served)
        self._caches.update([each for row in table.models for each in (row, *row.versions)])
        versions = VersionRoutes(
            table, self.batchers, self.metrics, self._caches, self._environment.loop
        )
        self._models = {row.name: self._routes_of(row, versions) for row in table.models}
        paths = Paths.of_all(each.paths for each in self._models.values())
        self.router.replace(paths.routes, paths.calls, paths.gets)
        self._tell_unresolved()

    def _routes_of(self, row: ModelRow, versions: VersionRoutes) -> ModelRoutes:
        """Return the routes of a model; those of before if nothing about it has changed."""
        before = self._models.get(row.name)
        if before is not None and before.row is row and not _calls_models(row):
            return before
        found, unresolved = versions.of_model(row)
        paths = Paths.of_model(row, self._traffic.routes(row, found), found)
        return ModelRoutes(row, paths, unresolved)

    def _tell_unresolved(self) -> None:
        """Log the routes that do not answer and were not known, once all models have loaded."""
        if any(row.reason for row in self.table.models):
            return
        known, self._told = self._told, {}
        for each in self._models.values():
            self._told.update(each.unresolved)
        for model, problems in self._told.items():
            if problems != known.get(model):
                log.warning("%s: routes without an answer: %s", model, "; ".join(problems))

    def _make_batcher(self, row: ModelRow) -> Batcher:
        find = self.metrics.find
        colocated = {name: find(Label(f"{row.name}:{name}", row.version)) for name in row.colocated}
        return Batcher(row, find(Label(row.label, row.version)), colocated, self._environment)


def _calls_models(row: ModelRow) -> bool:
    """Whether a route of the model *row* leads through other models."""
    routes = (route for version in (row, *row.versions) for route in version.routes)
    return any(step.model for route in routes for step in route.steps)

# SPDX-License-Identifier: Apache-2.0
"""The routes of each version of a model. Each routing table replaces them."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, NamedTuple

from servekit.frontend.batching.task_route import TaskRoute
from servekit.frontend.pipelines.instances import InstancesRoute
from servekit.frontend.pipelines.pipeline import Pipeline
from servekit.frontend.pipelines.planner import Unresolved, plan
from servekit.frontend.pipelines.route import PipelineRoute
from servekit.ipc.model_counters import Label
from servekit.ipc.response_style import style_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.metrics.known import KnownMetrics
    from servekit.frontend.middleware.cache import Caches
    from servekit.frontend.routing.batchers import Batchers
    from servekit.ipc.table import ModelRow, RouteRow, Table

    Routes = Mapping[str, PredictionRoute]  #: by path, which names no version

__all__ = ["Routes", "Version", "VersionRoutes"]


class Version(NamedTuple):
    """A version of a model, and where it answers."""

    row: ModelRow
    routes: Routes


class VersionRoutes:
    """Makes the routes of one routing table."""

    def __init__(
        self,
        table: Table,
        batchers: Batchers,
        metrics: KnownMetrics,
        caches: Caches,
        loop: EventLoop,
    ) -> None:
        """Lead to *batchers*, which follow *table* already."""
        self._rows = {row.name: row for row in table.models}
        self._batchers, self._metrics, self._caches = batchers, metrics, caches
        self._loop = loop
        self._unresolved: dict[str, list[str]] = {}

    def of_model(self, row: ModelRow) -> tuple[dict[str, Version], dict[str, list[str]]]:
        """Return the versions of a model by name, the default version first; and its problems.

        These are the reasons why routes do not answer, by the model or ``MODEL/versions/VERSION``.
        """
        self._unresolved = {}
        rows = (row, *row.versions)
        versions = {each.version: Version(each, self._of_version(each)) for each in rows}
        return versions, self._unresolved

    def _of_version(self, row: ModelRow) -> Routes:
        own = self._batchers.of_version(row)
        batchers = ChainMap(own, self._batchers.defaults)
        routes: dict[str, PredictionRoute] = {}
        if not row.stages:
            cache = self._caches.find(row)
            style = style_of(row.manifest)
            routes[f"/{row.name}/predict"] = TaskRoute(own[row.name], (), cache, style)
        for route in row.routes:
            if not route.problem:
                routes.pop(route.path, None)  # it belonged to the only stage
            if resolved := self._resolved(row, route, batchers):
                routes[route.path] = resolved
        return routes

    def _resolved(
        self, row: ModelRow, route: RouteRow, batchers: Mapping[str, Batcher]
    ) -> PredictionRoute | None:
        """Return what answers at *route* of *row*, or note why nothing does."""
        try:
            nodes = plan(row, route, self._rows, batchers)
        except Unresolved as error:
            is_default = self._rows[row.name] is row
            name = row.name if is_default else f"{row.name}/versions/{row.version}"
            self._unresolved.setdefault(name, []).append(f"{route.path}: {error}")
            return None
        pipeline = Pipeline(nodes, self._loop)
        metrics = self._metrics.find(Label(row.name, row.version))
        if route.instances:
            return InstancesRoute(row, pipeline, metrics, None, route.style)
        is_of_one_model = {node.batcher.row.name for node in nodes} == {row.name}
        cache = self._caches.find(row) if is_of_one_model else None
        if len(nodes) == 1 and is_of_one_model:
            return TaskRoute(nodes[0].batcher, nodes[0].calls, cache, route.style)
        return PipelineRoute(row, pipeline, metrics, cache, route.style)

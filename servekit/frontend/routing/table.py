# SPDX-License-Identifier: Apache-2.0
"""Follows the routing table: batchers, channels to workers, and the route of each path."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.batching.task_route import TaskRoute
from servekit.frontend.metrics.families import collect, waiting
from servekit.frontend.metrics.known import KnownMetrics
from servekit.frontend.metrics.replicas import supervised
from servekit.frontend.metrics.service import own_metrics
from servekit.frontend.middleware.cache import Caches
from servekit.frontend.pipelines.instances import InstancesRoute
from servekit.frontend.pipelines.pipeline import Pipeline
from servekit.frontend.pipelines.planner import Unresolved, plan
from servekit.frontend.pipelines.route import PipelineRoute
from servekit.frontend.routing.batchers import Batchers
from servekit.frontend.routing.router import Router
from servekit.ipc.model_counters import Label
from servekit.ipc.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from servekit.frontend.batching.environment import BatchingEnvironment
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.ipc.counters import Counters, Share
    from servekit.ipc.table import ModelRow, RouteRow

__all__ = ["Routing"]

log = logging.getLogger("servekit.frontend")


class Routing:
    """Follows the supervisor's table; belongs to one ``FrontEnd``."""

    def __init__(self, environment: BatchingEnvironment, counters: Counters, share: Share) -> None:
        """Start without a model.

        :param counters: of all front-ends.
        :param share: where this one counts.
        """
        self.table = Table([])
        self.has_table = False
        self.router = Router()
        self.batchers = Batchers(self._make_batcher)
        self._environment = environment
        self._counters = counters
        self._caches = Caches()
        self._metrics = KnownMetrics(share)
        self._unresolved: dict[str, list[str]] = {}  #: by model, why routes do not answer

    # ------------------------------------------------------------ what is known

    @property
    def is_set_up(self) -> bool:
        """Whether there is a table, and a channel to every worker that serves by it."""
        replicas = [each for batcher in self.batchers for each in batcher.pool.current]
        return self.has_table and all(
            replica.is_live for replica in replicas if replica.row.state == "serving"
        )

    def live_replicas(self, model: str) -> int:
        """Return how many replicas of *model*, or of the stage of this label, answer."""
        batcher = self.batchers.defaults.get(model)
        return sum(replica.is_live for replica in batcher.pool) if batcher else 0

    def unresolved(self, model: str) -> list[str]:
        """Return why routes of *model* do not answer, one line for each that does not."""
        return self._unresolved.get(model, [])

    def waiting(self) -> dict[str, int]:
        """Return how many tasks wait for each model, in all front-ends together."""
        return waiting(self._counters)

    def collect(self) -> Iterable[Metric]:
        """Yield the hot path's series of all front-ends, and those of services."""
        yield from collect(self._counters, self._metrics)
        yield from supervised(self.table)
        yield from own_metrics(self._service_metrics())

    def _service_metrics(self) -> Iterator[tuple[dict[str, str], memoryview]]:
        """Yield the labels and the memory of each worker whose service has metrics."""
        for batcher in self.batchers:
            row = batcher.row
            labels = {"model": row.name, "version": row.version}
            labels |= {"stage": row.stage} if row.stage else {}
            for replica in batcher.pool:
                if replica.channel is not None and replica.channel.metric_memory is not None:
                    index = str(replica.row.index)
                    yield labels | {"replica": index}, replica.channel.metric_memory

    # ------------------------------------------------------------ table -> routes

    def update(self, table: Table) -> None:
        """Take over what the supervisor says now."""
        self.table, self.has_table = table, True
        self.batchers.update(table)
        self._metrics.keep({(each.row.name, each.row.version) for each in self.batchers})
        rows, batchers = {row.name: row for row in table.models}, self.batchers.defaults
        self._caches.update(rows)
        routes: dict[str, PredictionRoute] = {
            f"/{name}/predict": TaskRoute(batchers[name], (), self._caches.find(name))
            for name, row in rows.items()
            if not row.stages
        }
        known, self._unresolved = self._unresolved, {}
        for row in table.models:
            for route in row.routes:
                if not route.problem:
                    routes.pop(route.path, None)  # it belonged to the only stage
                if resolved := self._resolved(row, route, rows, batchers):
                    routes[route.path] = resolved
        self.router.replace(routes, calls_of(table.models, routes))
        self._tell_unresolved(known)

    def _resolved(
        self,
        row: ModelRow,
        route: RouteRow,
        rows: Mapping[str, ModelRow],
        batchers: Mapping[str, Batcher],
    ) -> PredictionRoute | None:
        """Return what answers at *route* of *row*, or note why nothing does."""
        try:
            nodes = plan(row, route, rows, batchers)
        except Unresolved as error:
            self._unresolved.setdefault(row.name, []).append(f"{route.path}: {error}")
            return None
        pipeline = Pipeline(nodes, self._environment.loop)
        metrics = self._metrics.find(Label(row.name, row.version))
        if route.instances:
            return InstancesRoute(row, pipeline, metrics)
        is_of_one_model = {node.batcher.row.name for node in nodes} == {row.name}
        cache = self._caches.find(row.name) if is_of_one_model else None
        if len(nodes) == 1 and is_of_one_model:
            return TaskRoute(nodes[0].batcher, nodes[0].calls, cache)
        return PipelineRoute(row, pipeline, metrics, cache)

    def _tell_unresolved(self, known: Mapping[str, list[str]]) -> None:
        """Log the routes that do not answer and were not *known*, once all models have loaded."""
        if any(row.reason for row in self.table.models):
            return
        for model, problems in self._unresolved.items():
            if problems != known.get(model):
                log.warning("%s: routes without an answer: %s", model, "; ".join(problems))

    def _make_batcher(self, row: ModelRow) -> Batcher:
        find = self._metrics.find
        colocated = {name: find(Label(f"{row.name}:{name}", row.version)) for name in row.colocated}
        return Batcher(row, find(Label(row.label, row.version)), colocated, self._environment)


def calls_of(
    rows: Iterable[ModelRow], routes: Mapping[str, PredictionRoute]
) -> dict[tuple[str, str], PredictionRoute]:
    """Return the *routes* of models by model and endpoint; "" is ``predict``."""
    calls: dict[tuple[str, str], PredictionRoute] = {}
    for row in rows:
        if own := routes.get(f"/{row.name}/predict"):
            calls[row.name, ""] = own
        for route in row.routes:
            is_endpoint = len(route.steps) == 1 and route.steps[0].target
            if is_endpoint and not route.problem and route.path in routes:
                calls[row.name, route.steps[0].target] = routes[route.path]
    return calls

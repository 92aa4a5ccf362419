# SPDX-License-Identifier: Apache-2.0
"""The routing table at work: batchers, channels to workers, and who answers at which path."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.batching.queue import QueueMemory
from servekit.frontend.batching.replica import Replica
from servekit.frontend.metrics import counters as metrics
from servekit.frontend.metrics.replicas import supervised
from servekit.frontend.metrics.service import own_metrics
from servekit.frontend.middleware.cache import Caches
from servekit.frontend.pipelines.instances import Each, Instances
from servekit.frontend.pipelines.pipeline import Pipeline
from servekit.frontend.pipelines.planner import Unresolved, is_one_run, resolve
from servekit.frontend.routing.router import Router
from servekit.frontend.routing.stages import Models
from servekit.ipc.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.core import Metric

    from servekit.frontend.batching.samples import BatchSamples
    from servekit.frontend.exchange.protocols import Route
    from servekit.frontend.memory.pressure import Pressure
    from servekit.frontend.pipelines.pipeline import Place
    from servekit.ipc.control import Hung, Lost
    from servekit.ipc.counters import Counters, Share
    from servekit.ipc.table import ModelRow, RouteRow
    from servekit.settings import Settings

__all__ = ["Routing"]

log = logging.getLogger("servekit.frontend")


class Routing:
    """Follows the supervisor's table; belongs to one ``FrontEnd``."""

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        share: Share,
        loop: Any,
        report: Callable[[Hung | Lost], None],
        pressure: Pressure,
        samples: BatchSamples | None = None,
    ) -> None:
        """Know no model yet.

        :param counters: of all front-ends.
        :param share: where this one counts.
        :param report: tells the supervisor of a worker that hangs, or is gone with a batch.
        :param samples: notes batches that are answered, if a plugin wants to know of them.
        """
        self.table = Table([])
        self.has_table = False
        self.router = Router()
        self.models = Models(self._make_batcher, self._make_replica)
        self._settings = settings
        self._counters = counters
        self._share = share
        self._loop = loop
        self._report = report
        self._pressure = pressure
        self._samples = samples
        self._queue_memory = QueueMemory(settings.queue_memory)
        self._caches = Caches()
        self._metrics: dict[str, metrics.ModelMetrics] = {}
        self._unresolved: dict[str, list[str]] = {}  #: by model, why routes do not answer

    # ------------------------------------------------------------ what is known

    @property
    def is_set_up(self) -> bool:
        """We have a table and a channel to every worker that serves by it."""
        replicas = [each for batcher in self.models for each in batcher.replicas.values()]
        return self.has_table and all(
            replica.is_live for replica in replicas if replica.row.state == "serving"
        )

    def live_replicas(self, model: str) -> int:
        """Return how many replicas of *model*, or of the stage of this label, answer."""
        batcher = self.models.by_label().get(model)
        return sum(replica.is_live for replica in batcher.every_replica) if batcher else 0

    def unresolved(self, model: str) -> list[str]:
        """Return why routes of *model* do not answer, one line for each that does not."""
        return self._unresolved.get(model, [])

    def waiting(self) -> dict[str, int]:
        """Return how many tasks wait for each model, in all front-ends together."""
        return metrics.waiting(self._counters)

    def collect(self) -> Iterable[Metric]:
        """Yield the hot path's series of all front-ends, and those of services."""
        yield from metrics.collect(self._counters)
        yield from supervised(self.table)
        yield from own_metrics(
            (batcher.labels | {"replica": str(replica.row.index)}, replica.measures)
            for batcher in self.models
            for replica in batcher.every_replica
            if replica.measures is not None
        )

    # ------------------------------------------------------------ table -> routes

    def update(self, table: Table) -> None:
        """Take over what the supervisor says now."""
        self.table, self.has_table = table, True
        self.models.update(table)
        rows, batchers = {row.name: row for row in table.models}, self.models.by_label()
        self._caches.update(rows)
        routes: dict[str, Route] = {
            f"/{name}/predict": batchers[name] for name, row in rows.items() if not row.stages
        }
        for name in rows.keys() & batchers.keys():
            batchers[name].middleware = self._caches.find(name)
        known, self._unresolved = self._unresolved, {}
        for row in table.models:
            for route in row.routes:
                if not route.problem:
                    routes.pop(route.path, None)  # that of the only stage
                if way := self._resolved(row, route, rows, batchers):
                    routes[route.path] = way
        self.router.replace(routes, calls_of(table.models, routes))
        self._tell_unresolved(known)

    def _resolved(
        self,
        row: ModelRow,
        route: RouteRow,
        rows: Mapping[str, ModelRow],
        batchers: Mapping[str, Batcher],
    ) -> Batcher | Pipeline | None:
        """Return what answers at *route* of *row*, or note why nothing does."""
        try:
            places = resolve(row, route, rows, batchers)
        except Unresolved as error:
            self._unresolved.setdefault(row.name, []).append(f"{route.path}: {error}")
            return None
        if is_one_run(row, route, places):
            return self._stage_alone(row, places[0])
        kind = Each if route.instances else Pipeline
        found = kind(
            row,
            places,
            self._metrics_of(row.name),
            large_body=self._settings.large_body,
            loop=self._loop,
        )
        if isinstance(found, Each):
            return Instances(found)
        if found.is_of_one_model:
            found.middleware = self._caches.find(row.name)
        return found

    def _stage_alone(self, row: ModelRow, place: Place) -> Batcher:
        """Return the stage of *place*, which answers as a model of one service does."""
        batcher: Batcher = place.batcher
        batcher.calls, batcher.middleware = place.calls, self._caches.find(row.name)
        return batcher

    def _tell_unresolved(self, known: Mapping[str, list[str]]) -> None:
        """Log what does not answer and was not *known*, unless a model has yet to load."""
        if any(row.reason for row in self.table.models):
            return
        for model, problems in self._unresolved.items():
            if problems != known.get(model):
                log.warning("%s: routes without an answer: %s", model, "; ".join(problems))

    def _make_batcher(self, row: ModelRow) -> Batcher:
        counters = self._metrics_of(row.label)
        batcher = Batcher(
            row, counters, self._loop, self._settings, self._queue_memory, self._pressure
        )
        batcher.beside = {name: self._metrics_of(f"{row.name}:{name}") for name in row.beside}
        return batcher

    def _metrics_of(self, label: str) -> metrics.ModelMetrics:
        """Return what counts for a model, or for one stage of it."""
        if label not in self._metrics:
            self._metrics[label] = metrics.ModelMetrics(self._share, label)
        return self._metrics[label]

    def _make_replica(self, batcher: Batcher) -> Replica:
        return Replica(batcher, self._loop, self._report, self._samples)


def calls_of(rows: Iterable[ModelRow], routes: Mapping[str, Route]) -> dict[tuple[str, str], Route]:
    """Return the *routes* of models by model and endpoint; "" is ``predict``."""
    calls: dict[tuple[str, str], Route] = {}
    for row in rows:
        if own := routes.get(f"/{row.name}/predict"):
            calls[row.name, ""] = own
        for route in row.routes:
            is_endpoint = len(route.steps) == 1 and route.steps[0].target
            if is_endpoint and not route.problem and route.path in routes:
                calls[row.name, route.steps[0].target] = routes[route.path]
    return calls

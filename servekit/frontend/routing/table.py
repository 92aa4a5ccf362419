# SPDX-License-Identifier: Apache-2.0
"""Follows the routing table: batchers, channels to workers, and the route of each path."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.metrics.families import collect, waiting
from servekit.frontend.metrics.known import KnownMetrics
from servekit.frontend.metrics.replicas import supervised
from servekit.frontend.metrics.service import own_metrics
from servekit.frontend.middleware.cache import Caches
from servekit.frontend.routing.batchers import Batchers
from servekit.frontend.routing.paths import Paths
from servekit.frontend.routing.traffic import Traffic
from servekit.frontend.routing.version_routes import VersionRoutes
from servekit.ipc.model_counters import Label
from servekit.ipc.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from servekit.frontend.batching.environment import BatchingEnvironment
    from servekit.frontend.routing.router import Router
    from servekit.ipc.counter_share import Share
    from servekit.ipc.counters import Counters
    from servekit.ipc.table import ModelRow

__all__ = ["Routing"]

log = logging.getLogger("servekit.frontend")


class Routing:
    """Follows the supervisor's table; belongs to one ``FrontEnd``."""

    def __init__(
        self, environment: BatchingEnvironment, counters: Counters, share: Share, router: Router
    ) -> None:
        """Start without a model.

        :param counters: of all front-ends.
        :param share: where this one counts.
        :param router: gets the routes.
        """
        self.table = Table([])
        self.has_table = False
        self.router = router
        self.batchers = Batchers(self._make_batcher)
        self._environment = environment
        self._counters = counters
        self._caches = Caches()
        self._traffic = Traffic(environment.loop)
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
        return self.batchers.live_replicas(model)

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
        self._caches.update([each for row in table.models for each in (row, *row.versions)])
        versions = VersionRoutes(
            table, self.batchers, self._metrics, self._caches, self._environment.loop
        )
        paths = Paths()
        for row in table.models:
            found = versions.of_model(row)
            paths.add(row, self._traffic.routes(row, found), found)
        self.router.replace(paths.routes, paths.calls, paths.gets)
        known, self._unresolved = self._unresolved, versions.unresolved
        self._tell_unresolved(known)

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

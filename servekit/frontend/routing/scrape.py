# SPDX-License-Identifier: Apache-2.0
"""The series of the models in ``/metrics``: the hot path of all front-ends, and the services."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gevent

from servekit.frontend.metrics.families import collect
from servekit.frontend.metrics.replicas import supervised
from servekit.frontend.metrics.service import own_metrics
from servekit.frontend.metrics.trace_counts import traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from servekit.frontend.routing.batchers import Batchers
    from servekit.frontend.routing.table import Routing
    from servekit.frontend.tracing.traces import Traces
    from servekit.ipc.counters import Counters

__all__ = ["MANY_SAMPLES", "scrape"]

MANY_SAMPLES = 200  #: a family with more takes a millisecond to write
PAUSE_S = 0.0005  #: between two large families


def scrape(routing: Routing, counters: Counters, traces: Traces | None) -> Iterator[Metric]:
    """Yield the series of the models of *routing*.

    Call it in a greenlet: between large families, other requests are answered.

    :param counters: of all front-ends.
    :param traces: ``None`` if no plugin wants them.
    """
    for family in _families(routing, counters, traces):
        yield family
        if len(family.samples) > MANY_SAMPLES:
            gevent.sleep(PAUSE_S)


def _families(routing: Routing, counters: Counters, traces: Traces | None) -> Iterator[Metric]:
    routing.metrics.settle()
    yield from collect(counters, routing.metrics, traces.exemplars if traces is not None else None)
    if traces is not None:
        yield from traced(counters)
    yield from supervised(routing.table)
    yield from own_metrics(_workers(routing.batchers))


def _workers(batchers: Batchers) -> Iterator[tuple[dict[str, str], memoryview]]:
    """Yield the labels and the memory of each worker whose service has metrics."""
    for batcher in batchers:
        row = batcher.row
        labels = {"model": row.name, "version": row.version}
        labels |= {"stage": row.stage} if row.stage else {}
        for replica in batcher.pool:
            if replica.channel is not None and replica.channel.metric_memory is not None:
                index = str(replica.row.index)
                yield labels | {"replica": index}, replica.channel.metric_memory

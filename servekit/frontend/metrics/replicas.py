# SPDX-License-Identifier: Apache-2.0
"""The state of replicas as ``/metrics`` shows it: the same at every front-end."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from servekit.ipc.table import CAUSES, RELOADS, STATES, Table

__all__ = ["supervised"]


def supervised(table: Table) -> Iterator[Metric]:
    """Yield the series of *table*: one for each model or version, and each word of a closed set."""
    replicas = GaugeMetricFamily(
        "servekit_replicas", "Replicas by state", labels=["model", "version", "state"]
    )
    restarts = CounterMetricFamily(
        "servekit_restarts", "Workers started to replace another", labels=["model"]
    )
    crashes = CounterMetricFamily(
        "servekit_crashes",
        "Workers that exited unexpectedly, and failed loads",
        labels=["model", "cause"],
    )
    for row in table.models:
        for each in (row, *row.versions):
            states = Counter(replica.state for replica in each.replicas)
            for state in STATES:
                replicas.add_metric([row.name, each.version, state], states[state])
        restarts.add_metric([row.name], table.tally.restarts.get(row.name, 0))
        causes = table.tally.crashes.get(row.name, {})
        for cause in CAUSES:
            crashes.add_metric([row.name, cause], causes.get(cause, 0))
    reloads = CounterMetricFamily("servekit_reloads", "Reloads of models", labels=["result"])
    for result in RELOADS:
        reloads.add_metric([result], table.tally.reloads.get(result, 0))
    yield from (replicas, restarts, crashes, reloads)

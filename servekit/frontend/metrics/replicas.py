# SPDX-License-Identifier: Apache-2.0
"""The supervisor's knowledge as ``/metrics`` shows it: the same at every front-end."""

import platform
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from servekit import __version__
from servekit.ipc.operations import DONE, FAILED, KINDS
from servekit.ipc.table import (
    STATES,
    ModelRow,
    Table,
)
from servekit.ipc.tally import CAUSES, RELOADS, RESTART
from servekit.system.processes import memory_of

__all__ = ["RESULTS", "supervised"]

MODEL = ("model", "version")
RESULTS = (DONE, FAILED)  #: how an operation may end


def supervised(table: Table) -> Iterator[Metric]:
    """Yield the series of *table*: one for each model or version, and each word of a closed set.

    Reads the memory of the workers, which takes some 20 us for each.
    """
    rows = [each for row in table.models for each in (row, *row.versions)]
    yield from _states(rows)
    yield _memory(rows)
    yield from _troubles(table, rows)
    yield from _operations(table)
    yield from _of_server(table)


def _states(rows: list[ModelRow]) -> Iterator[Metric]:
    family = GaugeMetricFamily("servekit_replicas", "Replicas by state", labels=[*MODEL, "state"])
    for row in rows:
        states = Counter(replica.state for replica in row.replicas)
        for state in STATES:
            family.add_metric([row.name, row.version, state], states[state])
    yield family
    ready = GaugeMetricFamily(
        "servekit_model_ready", "1 while every stage has a replica that serves", labels=MODEL
    )
    for row in rows:
        ready.add_metric([row.name, row.version], row.is_ready)
    yield ready
    asleep = GaugeMetricFamily(
        "servekit_model_asleep", "1 while a model is unloaded until a request comes", labels=MODEL
    )
    for row in rows:
        if row.may_sleep:
            asleep.add_metric([row.name, row.version], row.is_asleep)
    yield asleep


def _memory(rows: list[ModelRow]) -> Metric:
    family = GaugeMetricFamily(
        "servekit_replica_memory_bytes",
        "Resident memory of the processes of a replica",
        labels=[*MODEL, "replica", "kind"],
    )
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        for replica in row.replicas:
            for pid in filter(None, (replica.pid, *replica.followers)):
                use = memory_of(pid)
                for kind, size in use._asdict().items() if use else ():
                    found[row.name, row.version, str(replica.index), kind] += size
    for labels, size in found.items():
        family.add_metric(labels, size)
    return family


def _troubles(table: Table, rows: list[ModelRow]) -> Iterator[Metric]:
    restarts = CounterMetricFamily(
        "servekit_restarts", "Workers started to replace another", labels=MODEL
    )
    crashes = CounterMetricFamily(
        "servekit_crashes",
        "Workers that exited unexpectedly, and failed loads",
        labels=[*MODEL, "cause"],
    )
    troubles = table.tally.troubles
    versions = dict.fromkeys((row.name, row.version) for row in rows)
    versions |= dict.fromkeys(
        (row.name, version) for row in table.models for version in troubles.get(row.name, ())
    )
    for model, version in versions:
        causes = troubles.get(model, {}).get(version, {})
        restarts.add_metric([model, version], causes.get(RESTART, 0))
        for cause in CAUSES:
            crashes.add_metric([model, version, cause], causes.get(cause, 0))
    yield from (restarts, crashes)


def _operations(table: Table) -> Iterator[Metric]:
    reloads = CounterMetricFamily("servekit_reloads", "Reloads of models", labels=["result"])
    for result in RELOADS:
        reloads.add_metric([result], table.tally.reloads.get(result, 0))
    operations = CounterMetricFamily(
        "servekit_operations", "Operations that have ended", labels=["kind", "result"]
    )
    for kind in KINDS:
        for result in RESULTS:
            operations.add_metric(
                [kind, result], table.tally.operations.get(kind, {}).get(result, 0)
            )
    yield from (reloads, operations)


def _of_server(table: Table) -> Iterator[Metric]:
    build = GaugeMetricFamily(
        "servekit_build_info", "The server; always 1", labels=["version", "python"]
    )
    build.add_metric([__version__, platform.python_version()], 1)
    started = GaugeMetricFamily(
        "servekit_start_time_seconds", "When the server was started, as Unix time"
    )
    started.add_metric([], table.tally.started)
    yield from (build, started)

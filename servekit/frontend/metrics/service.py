# SPDX-License-Identifier: Apache-2.0
"""The metrics of services, as ``/metrics`` shows them: read from the workers' memory."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from servekit.ipc.metric_memory import OTHER, Series, read_series

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["own_metrics"]

PREFIX = "servekit_model_"


def own_metrics(workers: Iterable[tuple[dict[str, str], memoryview]]) -> Iterable[Metric]:
    """Return the families of all *workers*, each the labels it is known by and its memory.

    Where two models use a name for two kinds, the kind that is met first is shown.
    """
    families: dict[str, Metric] = {}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for own, memory in workers:
        for series, values in read_series(memory):
            labels = own | series.labels
            key = series.name, frozenset(labels.items())
            name = PREFIX + series.name
            family = families.setdefault(name, Metric(name, series.help, series.kind))
            if family.type == series.kind and key not in seen and _is_shown(series, values):
                seen.add(key)
                _add(family, series, labels, values)
    return families.values()


def _is_shown(series: Series, values: list[float]) -> bool:
    """Leave out the series of all the others, while there are none, and what is malformed."""
    size = len(series.bounds) + 2 if series.kind == "histogram" else 1
    said = {value for label, value in series.labels.items() if label != "stage"}
    is_spare = said == {OTHER} and not any(values)
    return len(values) == size and not is_spare


def _add(family: Metric, series: Series, labels: dict[str, str], values: list[float]) -> None:
    if series.kind == "counter":
        family.add_sample(f"{family.name}_total", labels, values[0])
    elif series.kind == "gauge":
        family.add_sample(family.name, labels, values[0])
    else:
        counts = list(accumulate(values[:-1]))
        for bound, count in zip((*map(str, series.bounds), "+Inf"), counts, strict=True):
            bucket = labels | {"le": bound}
            family.add_sample(f"{family.name}_bucket", bucket, count)
        family.add_sample(f"{family.name}_count", labels, counts[-1])
        family.add_sample(f"{family.name}_sum", labels, values[-1])

# SPDX-License-Identifier: Apache-2.0
"""The metrics of handlers, as metrics of servekit. Runs in: worker.

Handlers name their metrics when they first report them, and servekit's are made before the first
request. So there is one metric for each kind, and the name is a label.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from servekit.service.metrics import Metrics

__all__ = ["CachedMetric", "Dimension", "HandlerMetrics", "MetricTypes"]

LABELS: Final = ("name", "unit", "dimensions")
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"
TIME_UNITS: Final = {"ms": "Milliseconds", "s": "Seconds"}
SIZE_UNITS: Final = {"B": "Bytes", "kB": "Kilobytes", "MB": "Megabytes", "GB": "Gigabytes"}


class Dimension(NamedTuple):
    """A label of a metric, as handlers write it."""

    name: str
    value: str


class MetricTypes(Enum):
    """The types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class CachedMetric:
    """A metric by its name: ``add_metric_to_cache`` returns it."""

    def __init__(self, owner: HandlerMetrics, name: str, unit: str, kind: str) -> None:
        """Report to *owner*."""
        self._owner, self._name, self._unit, self._kind = owner, name, unit, kind

    def add_or_update(
        self, value: float, dimension_values: Iterable[str] = (), request_id: str = ""
    ) -> None:
        """Count *value* more of a counter; otherwise be, or observe, *value*."""
        dimensions = ",".join(map(str, dimension_values))
        self._owner.report(self._kind, self._name, self._unit, value, dimensions)

    def update(self, value: float, request_id: str = "", dimensions: Any = None) -> None:
        """Do the same, with objects for the dimensions."""
        self.add_or_update(value, [each.value for each in dimensions or ()], request_id)


class HandlerMetrics:
    """``context.metrics``."""

    def __init__(self, metrics: Metrics) -> None:
        """Make the metrics that stand for all that a handler may report."""
        self._counter = metrics.counter("handler_counter", "Counters of the handler", LABELS)
        self._gauge = metrics.gauge("handler_value", "Values that the handler reported", LABELS)
        self._histogram = metrics.histogram("handler_observed", "Values by size", LABELS)
        self._kept: dict[str, CachedMetric] = {}
        self.request_ids: Mapping[int, str] = {}  #: those of the batch

    def report(self, kind: str, name: str, unit: str, value: float, dimensions: str) -> None:
        """Count or set a metric of any name."""
        labels = {"name": name, "unit": unit, "dimensions": dimensions}
        if kind == COUNTER:
            self._counter.inc(max(0.0, float(value)), **labels)
        elif kind == HISTOGRAM:
            self._histogram.observe(float(value), **labels)
        else:
            self._gauge.set(float(value), **labels)

    # ------------------------------------------------------------ what handlers call

    def add_metric(
        self,
        name: str,
        value: float,
        unit: str | None = None,
        idx: object = None,
        dimensions: Any = None,
        metric_type: Any = COUNTER,
    ) -> None:
        """Report *value* of any type of metric."""
        kind = str(getattr(metric_type, "value", metric_type)).lower()
        self.report(kind, name, unit or "", value, _joined(dimensions))

    def add_counter(
        self, name: str, value: float, idx: object = None, dimensions: Any = None
    ) -> None:
        """Count *value* more."""
        self.report(COUNTER, name, "count", value, _joined(dimensions))

    def add_time(
        self,
        name: str,
        value: float,
        idx: object = None,
        unit: str = "ms",
        dimensions: Any = None,
        metric_type: Any = "gauge",
    ) -> None:
        """Report a duration."""
        self.add_metric(name, value, TIME_UNITS.get(unit, unit), idx, dimensions, metric_type)

    def add_size(
        self,
        name: str,
        value: float,
        idx: object = None,
        unit: str = "MB",
        dimensions: Any = None,
        metric_type: Any = "gauge",
    ) -> None:
        """Report a number of bytes."""
        self.add_metric(name, value, SIZE_UNITS.get(unit, unit), idx, dimensions, metric_type)

    def add_percent(
        self,
        name: str,
        value: float,
        idx: object = None,
        dimensions: Any = None,
        metric_type: Any = "gauge",
    ) -> None:
        """Report a percentage."""
        self.add_metric(name, value, "Percent", idx, dimensions, metric_type)

    def add_error(self, name: str, value: object, dimensions: Any = None) -> None:
        """Count an error."""
        self.report(COUNTER, name, "", 1, _joined(dimensions))

    def add_metric_to_cache(
        self, metric_name: str, unit: str, dimension_names: Any = None, metric_type: Any = COUNTER
    ) -> CachedMetric:
        """Return the metric *metric_name*, which is new or known."""
        kind = str(getattr(metric_type, "value", metric_type)).lower()
        return self._kept.setdefault(metric_name, CachedMetric(self, metric_name, unit, kind))

    def get_metric(self, metric_name: str, metric_type: Any = COUNTER) -> CachedMetric:
        """Return the metric *metric_name*."""
        return self.add_metric_to_cache(metric_name, "", metric_type=metric_type)


def _joined(dimensions: Any) -> str:
    """Return *dimensions*, objects with a name and a value, as one label."""
    return ",".join(f"{each.name}={each.value}" for each in dimensions or ())

# SPDX-License-Identifier: Apache-2.0
"""The metrics of MMS, made of those of the server every minute. Runs in: observer."""

from __future__ import annotations

import socket
from collections import defaultdict
from time import monotonic, time
from typing import TYPE_CHECKING, Final, NamedTuple

from servekit_mms.host import HostMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from servekit.extension import MetricFamily

    #: writes the rows of an interval, which ended at a time in seconds since 1970
    Sink = Callable[[float, str, Sequence["Row"]], None]

__all__ = ["MetricsReporter", "Row", "Sink", "Totals"]

INTERVAL_S: Final = 60.0
MS_PER_S: Final = 1000.0
REQUESTS: Final = "servekit_requests_total"
OVERALL: Final = "servekit_request_duration_seconds"
PREDICT: Final = "servekit_predict_duration_seconds"
STEP: Final = "servekit_model_mms_step_seconds"
PAGE: Final = "flask_http_request_duration_seconds_count"
DESCRIPTIONS: Final = "servekit_mms_descriptions_total"


class Row(NamedTuple):
    """One metric of one interval."""

    name: str
    value: float
    unit: str  #: ``count``, ``ms``, ``percent``, ``MB`` or ``GB``
    model: str = ""  #: "" is the machine, or the whole server


class Totals:
    """The counts since the server started."""

    def __init__(self, metrics: Sequence[MetricFamily] = ()) -> None:
        """Add up the samples of *metrics* that the metrics of MMS are made of."""
        self.counts: dict[tuple[str, str], float] = defaultdict(float)  #: by metric and model
        self.models: set[str] = set()
        for sample in (sample for family in metrics for sample in family.samples):
            labels = sample.labels
            model = labels.get("model", "")
            for name in _counted(sample.name, labels):
                self.counts[name, model] += sample.value
                self.models |= {model} if model else set()

    def rows(self, before: Totals) -> Iterator[Row]:
        """Yield what has been counted since *before*."""
        for model in sorted(self.models):
            for name in ("PredictionTotal", "Prediction4XX", "Prediction5XX"):
                yield Row(name, self._since(before, name, model), "count", model)
            for name in ("Overall", "Inference", "Preprocess", "Postprocess"):
                latency = self._average_ms(before, name, model)
                if latency is None and name == "Inference":
                    latency = self._average_ms(before, "Predict", model)
                if latency is not None:
                    yield Row(f"Latency{name}", latency, "ms", model)
        for name in ("PingTotal", "APIDescriptionTotal"):
            yield Row(name, self._since(before, name, ""), "count")

    def _since(self, before: Totals, name: str, model: str) -> float:
        """Return how much has been added; 0 if a worker was replaced, which counts from 0 again."""
        return max(0.0, self.counts.get((name, model), 0) - before.counts.get((name, model), 0))

    def _average_ms(self, before: Totals, name: str, model: str) -> float | None:
        count = self._since(before, f"{name}_count", model)
        return MS_PER_S * self._since(before, f"{name}_sum", model) / count if count else None


class MetricsReporter:
    """Gives sinks the metrics of each minute."""

    def __init__(
        self,
        sink: Sink,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = monotonic,
        host: HostMetrics | None = None,
    ) -> None:
        """Begin the first minute."""
        self._sink, self._interval_s, self._clock = sink, interval_s, clock
        self._host = host or HostMetrics()
        self._hostname = socket.gethostname()
        self._before = self._now = Totals()
        self._sampled: dict[str, list[tuple[float, str]]] = defaultdict(list)
        self._due = clock() + interval_s

    def take(self, metrics: Sequence[MetricFamily]) -> None:
        """Take what the server has counted until now; report it once the minute is over."""
        self._now = Totals(metrics)
        for name, sampled in self._host.read().items():
            self._sampled[name].append(sampled)
        if self._clock() >= self._due:
            self.report()

    def report(self) -> None:
        """Report what has come since the last time, and begin another minute."""
        if not self._sampled:
            return
        rows = list(self._now.rows(self._before))
        for name, values in self._sampled.items():
            rows.append(Row(name, sum(each for each, _ in values) / len(values), values[0][1]))
        self._sink(time(), self._hostname, rows)
        self._before, self._due = self._now, self._clock() + self._interval_s
        self._sampled.clear()


def _counted(sample: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the totals that a sample is part of."""
    if sample == REQUESTS:
        yield "PredictionTotal"
        kind = labels.get("status", "")[:1]
        if kind in ("4", "5"):
            yield f"Prediction{kind}XX"
    elif sample == PAGE and labels.get("rule") == "/ping":
        yield "PingTotal"
    elif sample == DESCRIPTIONS:
        yield "APIDescriptionTotal"
    for end in ("_count", "_sum"):
        if sample == OVERALL + end:
            yield "Overall" + end
        elif sample == PREDICT + end:
            yield "Predict" + end
        elif sample == STEP + end:
            yield labels.get("step", "").capitalize() + end

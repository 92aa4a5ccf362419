# SPDX-License-Identifier: Apache-2.0
"""Counters of the hot path: a fixed array of doubles for each model and front-end.

The arrays lie in memory that all front-ends see (``counters``), so that any of them can add
up all of them, and nothing is lost with one that dies. An increment costs two array
accesses: no lock, no label lookup.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from servekit.ipc.counters import Counters, Share

__all__ = ["ModelMetrics", "collect", "waiting"]

KEY = "model"  #: the first part of the keys of the arrays; the second is a label
#: upper bounds of the duration buckets, in seconds: 100 us to 60 s
DURATIONS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
#: counted one by one, as a service may answer with any of them
STATUSES = range(100, 600)
#: shown from the start; the others once there was one
SHOWN = (200, 400, 401, 403, 404, 406, 413, 415, 422, 429, 500, 503, 504, 507)
DROPS = ("expired", "cancelled", "poison")
CACHED = ("hit", "miss")

HISTOGRAMS = {
    "request_duration_seconds": ("Time from the complete request to its response", DURATIONS),
    "queue_duration_seconds": ("Wait of the oldest task of a batch for a worker", DURATIONS),
    "predict_duration_seconds": ("Time in predict, once for each batch", DURATIONS),
    "batch_size": ("Number of tasks in a batch", SIZES),
}
STREAM_NUMBERS = ("streams", "outputs", "streams_cancelled")
STREAMS = {
    "first_output_seconds": ("Time from the complete request to the first output", DURATIONS)
}

#: the arrays, added up, by the labels of their series
Totals = dict[tuple[str, ...], list[float]]

STAGE = ":"  #: between a model and its stage, in the name of an array
#: of the stages of a model that has several
STAGE_HISTOGRAMS = ("queue_duration_seconds", "predict_duration_seconds", "batch_size")


def _lay_out() -> tuple[dict[object, int], int]:
    """Give every series its place in the array; a histogram takes its buckets, +Inf and sum."""
    places: dict[object, int] = {}
    end = 0
    for name, (_, bounds) in (HISTOGRAMS | STREAMS).items():
        places[name] = end
        end += len(bounds) + 2
    for key in (*STATUSES, *DROPS, *CACHED, *STREAM_NUMBERS, "waiting", "running"):
        places[key] = end
        end += 1
    return places, end


PLACES, LENGTH = _lay_out()
GAUGES = tuple(PLACES[key] for key in ("streams", "waiting", "running"))
#: what is of requests, not of batches and queues
OF_REQUESTS = (
    *range(PLACES["request_duration_seconds"], PLACES["queue_duration_seconds"]),
    *range(PLACES["first_output_seconds"], PLACES["waiting"]),
)
OTHER_STATUS = PLACES[500]
REQUESTS = PLACES["request_duration_seconds"]
REQUESTS_SUM = REQUESTS + len(DURATIONS) + 1
QUEUES = PLACES["queue_duration_seconds"]
PREDICTS = PLACES["predict_duration_seconds"]
BATCHES = PLACES["batch_size"]
BATCHES_SUM = BATCHES + len(SIZES) + 1
OK = PLACES[200]
FIRST_OUTPUTS = PLACES["first_output_seconds"]


class ModelMetrics:
    """One front-end's array for one model."""

    __slots__ = ("values",)

    def __init__(self, share: Share, label: str) -> None:
        """Count in *share* for the model, or the stage, of *label*."""
        self.values = share.take((KEY, label), LENGTH, GAUGES)

    def count_status(self, status: int) -> None:
        """Count an answer that is not a 200."""
        self.values[PLACES.get(status, OTHER_STATUS)] += 1

    def count_cached(self, result: str) -> None:
        """Count a look into the cache: one of ``CACHED``; a hit is an answer too."""
        self.values[PLACES[result]] += 1
        if result == "hit":
            self.values[OK] += 1

    def count_drop(self, reason: str) -> None:
        """Count a task that no worker saw, or will see again: one of ``DROPS``."""
        self.values[PLACES[reason]] += 1

    @property
    def answered(self) -> float:
        """Number of tasks that workers have answered."""
        return self.values[BATCHES_SUM]

    def set_tasks(self, waiting: int, running: int) -> None:
        """Note how many tasks are in the queue, and how many workers have."""
        self.values[PLACES["waiting"]] = waiting
        self.values[PLACES["running"]] = running

    def count_stream(self, step: int) -> None:
        """Count a stream that a worker has begun (+1), or is done with (-1)."""
        self.values[PLACES["streams"]] += step

    def count_cancelled_stream(self) -> None:
        """Count a stream whose client went away."""
        self.values[PLACES["streams_cancelled"]] += 1

    def count_outputs(self, outputs: int) -> None:
        """Count what streams brought."""
        self.values[PLACES["outputs"]] += outputs

    def observe_first_output(self, duration_s: float) -> None:
        """Count a stream whose first output is here."""
        self._observe(FIRST_OUTPUTS, DURATIONS, duration_s)

    def observe_answer(self, duration_s: float) -> None:
        """Count an answer with all of its outputs."""
        self._observe(REQUESTS, DURATIONS, duration_s)
        self.values[OK] += 1

    def _observe(self, start: int, bounds: tuple[float, ...], value: float) -> None:
        self.values[start + bisect_left(bounds, value)] += 1
        self.values[start + len(bounds) + 1] += value

    def observe_batch(self, size: int, queue_s: float, predict_s: float) -> None:
        """Count one answered batch."""
        values = self.values
        for start, bounds, value in (
            (BATCHES, SIZES, size),
            (QUEUES, DURATIONS, queue_s),
            (PREDICTS, DURATIONS, predict_s),
        ):
            values[start + bisect_left(bounds, value)] += 1
            values[start + len(bounds) + 1] += value

    def observe_queue(self, queue_s: float) -> None:
        """Count how long a batch has waited for a worker of several stages."""
        self._observe(QUEUES, DURATIONS, queue_s)

    def observe_step(self, size: int, predict_s: float) -> None:
        """Count what one of several stages of a worker had of a batch."""
        self._observe(BATCHES, SIZES, size)
        self._observe(PREDICTS, DURATIONS, predict_s)


def collect(counters: Counters) -> Iterator[Metric]:
    """Yield the series of all models, and of all stages, summed over the front-ends that ever ran.

    What a request goes through is counted for its model, or for the one stage that answered
    it; a model with stages has series of queues and batches for each of them.
    """
    models: Totals = {}
    stages: Totals = {}
    for label, values in sorted(_read(counters).items()):  # a model before its stages
        model, _, stage = label.partition(STAGE)
        if stage:
            stages[model, stage] = values
            whole = models.setdefault((model,), [0.0] * LENGTH)
            for place in OF_REQUESTS:
                whole[place] += values[place]
        else:
            models[model,] = values
    for name in HISTOGRAMS:
        yield _histogram(f"servekit_{name}", name, ["model"], models)
    yield _counters("servekit_requests", "Predictions by status", "status", SHOWN, models, STATUSES)
    yield _counters("servekit_tasks_dropped", "Tasks never predicted", "reason", DROPS, models)
    yield _counters("servekit_cache_looks", "Cache lookups", "result", CACHED, models)
    yield _gauge("servekit_tasks_waiting", "Tasks in the queue", ["model"], models)
    yield _gauge("servekit_tasks_running", "Tasks being processed", ["model"], models)
    yield from _of_streams({key: values for key, values in models.items() if _streams(values)})
    if stages:
        for name in STAGE_HISTOGRAMS:
            yield _histogram(f"servekit_stage_{name}", name, ["model", "stage"], stages)
        labels = ["model", "stage"]
        yield _gauge("servekit_stage_tasks_waiting", "Tasks in the queue", labels, stages)
        yield _gauge("servekit_stage_tasks_running", "Tasks being processed", labels, stages)


def waiting(counters: Counters) -> dict[str, int]:
    """Return how many tasks wait for each model, in all front-ends that live."""
    return {model: int(values[PLACES["waiting"]]) for model, values in _read(counters).items()}


def _read(counters: Counters) -> dict[str, list[float]]:
    return {key[1]: values for key, values in counters.read().items() if key[0] == KEY}


def _streams(values: list[float]) -> bool:
    """Whether there have ever been streams; what has none needs no series of them."""
    return bool(values[PLACES["streams"]] or values[PLACES["outputs"]])


def _of_streams(totals: Totals) -> Iterator[Metric]:
    yield _histogram("servekit_first_output_seconds", "first_output_seconds", ["model"], totals)
    for kind, name, text, key in (
        (GaugeMetricFamily, "streams_open", "Streams being produced", "streams"),
        (CounterMetricFamily, "outputs", "Outputs of streams", "outputs"),
        (
            CounterMetricFamily,
            "streams_cancelled",
            "Streams whose client left",
            "streams_cancelled",
        ),
    ):
        family = kind(f"servekit_{name}", text, labels=["model"])
        for model, values in totals.items():
            family.add_metric(model, values[PLACES[key]])
        yield family


def _histogram(name: str, kind: str, labels: list[str], totals: Totals) -> HistogramMetricFamily:
    text, bounds = (HISTOGRAMS | STREAMS)[kind]
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, values in totals.items():
        _add_histogram(family, key, bounds, values[PLACES[kind] :])
    return family


def _gauge(name: str, text: str, labels: list[str], totals: Totals) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, values in totals.items():
        family.add_metric(key, values[PLACES[name.rpartition("_")[2]]])
    return family


def _add_histogram(
    family: HistogramMetricFamily,
    key: tuple[str, ...],
    bounds: tuple[float, ...],
    values: list[float],
) -> None:
    counts = [0.0]
    for value in values[: len(bounds) + 1]:
        counts.append(counts[-1] + value)
    names = [*map(str, bounds), "+Inf"]
    buckets = [(name, after) for name, (_, after) in zip(names, pairwise(counts), strict=True)]
    family.add_metric(key, buckets=buckets, sum_value=values[len(bounds) + 1])


def _counters(
    name: str,
    text: str,
    label: str,
    shown: Sequence[object],
    totals: Totals,
    others: Iterable[object] = (),
) -> CounterMetricFamily:
    """Return one series for each of *shown*, and for each of *others* that is not 0."""
    family = CounterMetricFamily(name, text, labels=["model", label])
    for model, values in totals.items():
        met = [key for key in others if key not in shown and values[PLACES[key]]]
        for key in (*shown, *met):
            family.add_metric([*model, str(key)], values[PLACES[key]])
    return family

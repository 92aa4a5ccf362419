# SPDX-License-Identifier: Apache-2.0
"""The counters of the hot path as ``/metrics`` shows them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.samples import Exemplar

from servekit.frontend.metrics.exemplars import Exemplars
from servekit.ipc.counters import Counters
from servekit.ipc.model_counters import (
    CACHED,
    DROPS,
    HISTOGRAMS,
    KEY,
    LEFT,
    LENGTH,
    MIRRORED,
    OF_REQUESTS,
    PLACES,
    STATUSES,
    STREAMS,
    Label,
    label_of,
)

__all__ = ["collect"]

#: those that are shown from the start; the others once there was one
SHOWN_STATUSES = (200, 400, 401, 403, 404, 406, 413, 415, 422, 429, 500, 503, 504, 507)
#: shown for each stage of a model that has several
STAGE_HISTOGRAMS = tuple(name for name in HISTOGRAMS if name != "request_duration_seconds")

MODEL = ("model", "version")  #: labels of the series of a model
STAGE = (*MODEL, "stage")  #: labels of the series of a stage
#: the arrays, added up, by the labels of their series
Totals = dict[tuple[str, ...], list[float]]


def collect(
    counters: Counters, shown: Collection[Label], exemplars: Exemplars | None = None
) -> Iterator[Metric]:
    """Yield the series of all models and stages, summed over all front-ends, past ones too.

    Requests are counted for their model, or for the one stage that answered them. A model with
    stages has series of queues and batches for each of them.

    :param shown: the labels that have series: versions that are gone for long have none.
    :param exemplars: of the durations of requests.
    """
    models, stages = _totals(counters, shown)
    for name in HISTOGRAMS:
        traced = exemplars if name == "request_duration_seconds" else None
        yield _histogram(f"servekit_{name}", name, MODEL, models, traced)
    yield _counters(
        "servekit_requests", "Predictions by status", "status", SHOWN_STATUSES, models, STATUSES
    )
    yield _counters("servekit_tasks_dropped", "Tasks dropped from a queue", "reason", DROPS, models)
    yield _counters(
        "servekit_batches", "Batches, by why they left the queue", "reason", LEFT, models
    )
    yield _counters("servekit_cache_looks", "Cache lookups", "result", CACHED, models)
    yield _gauge("servekit_tasks_waiting", "Tasks in the queue", MODEL, models)
    yield _gauge("servekit_tasks_running", "Tasks being processed", MODEL, models)
    copied = {key: values for key, values in models.items() if _mirrors(values)}
    text = "Copies of requests, by comparison of the responses"
    yield _counters("servekit_mirrored", text, "result", MIRRORED, copied)
    yield from _of_streams({key: values for key, values in models.items() if _streams(values)})
    if stages:
        for name in STAGE_HISTOGRAMS:
            yield _histogram(f"servekit_stage_{name}", name, STAGE, stages)
        yield _gauge("servekit_stage_tasks_waiting", "Tasks in the queue", STAGE, stages)
        yield _gauge("servekit_stage_tasks_running", "Tasks being processed", STAGE, stages)


def _totals(counters: Counters, shown: Collection[Label]) -> tuple[Totals, Totals]:
    """Return the sums of the models, and of their stages."""
    models: Totals = {}
    stages: Totals = {}
    found = {label_of(key): each for key, each in counters.read(lambda key: key[0] == KEY).items()}
    for label, values in sorted(found.items()):  # a model before its stages
        if label not in shown:
            continue
        if label.stage:
            stages[label.model, label.version, label.stage] = values
            whole = models.setdefault((label.model, label.version), [0.0] * LENGTH)
            for place in OF_REQUESTS:
                whole[place] += values[place]
        else:
            models[label.model, label.version] = values
    return models, stages


def _streams(values: list[float]) -> bool:
    """Whether there have been any streams; a model without needs no series of them."""
    return bool(values[PLACES["streams"]] or values[PLACES["outputs"]])


def _mirrors(values: list[float]) -> bool:
    """Whether copies of requests were sent there."""
    return any(values[PLACES[result]] for result in MIRRORED)


def _of_streams(totals: Totals) -> Iterator[Metric]:
    for name in STREAMS:
        yield _histogram(f"servekit_{name}", name, MODEL, totals)
    for kind, name, text, key in (
        (GaugeMetricFamily, "streams_open", "Streams being produced", "streams"),
        (CounterMetricFamily, "outputs", "Outputs of streams", "outputs"),
        (
            CounterMetricFamily,
            "streams_cancelled",
            "Streams whose client disconnected",
            "streams_cancelled",
        ),
    ):
        family = kind(f"servekit_{name}", text, labels=MODEL)
        for model, values in totals.items():
            family.add_metric(model, values[PLACES[key]])
        yield family


def _histogram(
    name: str,
    kind: str,
    labels: Sequence[str],
    totals: Totals,
    exemplars: Exemplars | None = None,
) -> HistogramMetricFamily:
    text, bounds = (HISTOGRAMS | STREAMS)[kind]
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, values in totals.items():
        traced = exemplars.of(*key) if exemplars is not None else {}
        _add_histogram(family, key, bounds, values[PLACES[kind] :], traced)
    return family


def _gauge(name: str, text: str, labels: Sequence[str], totals: Totals) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, values in totals.items():
        family.add_metric(key, values[PLACES[name.rpartition("_")[2]]])
    return family


def _add_histogram(
    family: HistogramMetricFamily,
    key: tuple[str, ...],
    bounds: tuple[float, ...],
    values: list[float],
    traced: Mapping[int, Exemplar],
) -> None:
    names = (*map(str, bounds), "+Inf")
    counts = accumulate(values[: len(names)])
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = [
        (name, count, traced[place]) if place in traced and values[place] else (name, count)
        for place, (name, count) in enumerate(zip(names, counts, strict=True))
    ]
    family.add_metric(key, buckets=buckets, sum_value=values[len(names)])


def _counters(
    name: str,
    text: str,
    label: str,
    shown: Sequence[object],
    totals: Totals,
    others: Iterable[object] = (),
) -> CounterMetricFamily:
    """Return one series for each of *shown*, and for each of *others* that is not 0."""
    family = CounterMetricFamily(name, text, labels=[*MODEL, label])
    for model, values in totals.items():
        met = [key for key in others if key not in shown and values[PLACES[key]]]
        for key in (*shown, *met):
            family.add_metric([*model, str(key)], values[PLACES[key]])
    return family

# SPDX-License-Identifier: Apache-2.0
"""Counters of the hot path: a fixed array of doubles for each model and front-end.

The arrays lie in memory that all front-ends share, so any of them can add up all of them, and
nothing is lost when one ends. An increment is two accesses to an array: no lock, no label lookup.
"""

from bisect import bisect_left
from collections.abc import Sequence

from servekit.ipc.counters import Share

__all__ = ["ModelMetrics"]

KEY = "model"  #: the first part of the keys of the arrays; the second is a label
#: upper bounds of the buckets of durations, in seconds: 100 us to 60 s
DURATIONS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
#: each is counted: a service may answer with any of them
STATUSES = range(100, 600)
DROPS = ("expired", "cancelled", "poison")
CACHED = ("hit", "miss")

HISTOGRAMS = {
    "request_duration_seconds": ("Time from the complete request to its response", DURATIONS),
    "queue_duration_seconds": (
        "Time that the oldest task of a batch waited for a worker",
        DURATIONS,
    ),
    "predict_duration_seconds": ("Time in predict, once per batch", DURATIONS),
    "batch_size": ("Number of tasks in a batch", SIZES),
}
STREAM_NUMBERS = ("streams", "outputs", "streams_cancelled")
STREAMS = {
    "first_output_seconds": ("Time from the complete request to the first output", DURATIONS)
}


def _lay_out() -> tuple[dict[object, int], int]:
    """Return the index of every series in the array, and its length.

    A histogram takes an element for each bucket, one for +Inf and one for the sum.
    """
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
#: series that count requests, not batches and queues
OF_REQUESTS = (
    *range(PLACES["request_duration_seconds"], PLACES["queue_duration_seconds"]),
    *range(PLACES["first_output_seconds"], PLACES["waiting"]),
)
OTHER_STATUS = PLACES[500]
REQUESTS = PLACES["request_duration_seconds"]
REQUESTS_SUM = REQUESTS + len(DURATIONS) + 1
QUEUES = PLACES["queue_duration_seconds"]
QUEUES_SUM = QUEUES + len(DURATIONS) + 1
PREDICTS = PLACES["predict_duration_seconds"]
PREDICTS_SUM = PREDICTS + len(DURATIONS) + 1
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
        """Count a response whose duration is not observed: an error, in most cases."""
        self.values[PLACES.get(status, OTHER_STATUS)] += 1

    def count_cached(self, result: str) -> None:
        """Count a cache lookup: one of ``CACHED``. A hit is a response, too."""
        self.values[PLACES[result]] += 1
        if result == "hit":
            self.values[OK] += 1

    def count_drop(self, reason: str) -> None:
        """Count a task that is dropped from a queue: one of ``DROPS``."""
        self.values[PLACES[reason]] += 1

    @property
    def answered(self) -> float:
        """Number of tasks that workers have answered."""
        return self.values[BATCHES_SUM]

    def set_tasks(self, waiting: int, running: int) -> None:
        """Set how many tasks are in the queue, and how many workers have."""
        self.values[PLACES["waiting"]] = waiting
        self.values[PLACES["running"]] = running

    def count_stream(self, step: int) -> None:
        """Count a stream that a worker begins (+1) or ends (-1)."""
        self.values[PLACES["streams"]] += step

    def count_cancelled_stream(self) -> None:
        """Count a stream whose client disconnected."""
        self.values[PLACES["streams_cancelled"]] += 1

    def count_outputs(self, outputs: int) -> None:
        """Count outputs of streams."""
        self.values[PLACES["outputs"]] += outputs

    def observe_first_output(self, duration_s: float) -> None:
        """Count a stream by the time to its first output."""
        self._observe(FIRST_OUTPUTS, DURATIONS, duration_s)

    def observe_successes(self, durations_s: Sequence[float]) -> None:
        """Count responses with a prediction and the status 200, all at once."""
        values = self.values
        for duration_s in durations_s:
            values[REQUESTS + bisect_left(DURATIONS, duration_s)] += 1
        values[REQUESTS_SUM] += sum(durations_s)
        values[OK] += len(durations_s)

    def observe_response(self, status: int, duration_s: float) -> None:
        """Count a response with a prediction, whatever status its service gave it."""
        values = self.values
        values[REQUESTS + bisect_left(DURATIONS, duration_s)] += 1
        values[REQUESTS_SUM] += duration_s
        values[OK if status == 200 else PLACES.get(status, OTHER_STATUS)] += 1

    def _observe(self, start: int, bounds: tuple[float, ...], value: float) -> None:
        self.values[start + bisect_left(bounds, value)] += 1
        self.values[start + len(bounds) + 1] += value

    def observe_batch(
        self, size: int, queue_s: float, predict_s: float, durations_s: Sequence[float] = ()
    ) -> None:
        """Count one answered batch, and the successes among its responses."""
        values = self.values
        values[BATCHES + bisect_left(SIZES, size)] += 1
        values[BATCHES_SUM] += size
        values[QUEUES + bisect_left(DURATIONS, queue_s)] += 1
        values[QUEUES_SUM] += queue_s
        values[PREDICTS + bisect_left(DURATIONS, predict_s)] += 1
        values[PREDICTS_SUM] += predict_s
        self.observe_successes(durations_s)

    def observe_queue(self, queue_s: float) -> None:
        """Count a batch for a worker of several stages, by the time that it waited."""
        self._observe(QUEUES, DURATIONS, queue_s)

    def observe_step(self, size: int, predict_s: float) -> None:
        """Count the part of a batch that one of several stages of a worker had."""
        self._observe(BATCHES, SIZES, size)
        self._observe(PREDICTS, DURATIONS, predict_s)

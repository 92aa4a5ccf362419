# SPDX-License-Identifier: Apache-2.0
"""Counters of the hot path: a fixed array of doubles for each version of a model, or of a stage.

The arrays lie in memory that all front-ends share, so any of them can add up all of them, and
nothing is lost when one ends. An increment is two accesses to an array: no lock, no label lookup.
``servekit.ipc.model_counters`` lays them out.
"""

from bisect import bisect_left
from collections.abc import Sequence

from servekit.ipc.counter_share import Share
from servekit.ipc.model_counters import DURATIONS, GAUGES, LENGTH, PLACES, SIZES, Label, key_of

__all__ = ["ModelMetrics"]

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
    """One front-end's array for one version of a model, or of a stage."""

    __slots__ = ("_uncounted", "values")

    def __init__(self, share: Share, label: Label) -> None:
        """Count in *share* under *label*."""
        self.values = share.take(key_of(label), LENGTH, GAUGES)
        self._uncounted = 0  #: inputs in the sum of batches beyond the number of their tasks

    def count_status(self, status: int) -> None:
        """Count a response whose duration is not observed: an error, in most cases."""
        self.values[PLACES.get(status, OTHER_STATUS)] += 1

    def count_cached(self, result: str) -> None:
        """Count a cache lookup: one of ``CACHED``. A hit is a response, too."""
        self.values[PLACES[result]] += 1
        if result == "hit":
            self.values[OK] += 1

    def count_mirrored(self, result: str) -> None:
        """Count a copy of a request: one of ``MIRRORED``."""
        self.values[PLACES[result]] += 1

    def count_drop(self, reason: str) -> None:
        """Count a task that is dropped from a queue: one of ``DROPS``."""
        self.values[PLACES[reason]] += 1

    @property
    def answered(self) -> float:
        """Number of tasks that workers have answered."""
        return self.values[BATCHES_SUM] - self._uncounted

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

    def observe_calls(
        self,
        sizes: Sequence[int],
        tasks: int,
        queue_s: float,
        predict_s: float,
        durations_s: Sequence[float],
    ) -> None:
        """Count one answered batch of *tasks* that took several calls of ``predict``.

        :param sizes: inputs or rows of each call.
        :param predict_s: seconds of all calls together.
        """
        self._uncounted += sum(sizes) - tasks
        self.observe_queue(queue_s)
        for size in sizes:
            self.observe_step(size, predict_s / len(sizes))
        self.observe_successes(durations_s)

    def observe_queue(self, queue_s: float) -> None:
        """Count a batch by the time that it waited."""
        self._observe(QUEUES, DURATIONS, queue_s)

    def observe_step(self, size: int, predict_s: float) -> None:
        """Count a call of ``predict``, or the part of a batch that a stage of a worker had."""
        self._observe(BATCHES, SIZES, size)
        self._observe(PREDICTS, DURATIONS, predict_s)

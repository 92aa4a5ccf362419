# SPDX-License-Identifier: Apache-2.0
"""Counters of the hot path: a fixed array of doubles for each version of a model, or of a stage.

The arrays lie in memory that all front-ends share, so any of them can add up all of them, and
nothing is lost when one ends. An increment is two accesses to an array: no lock, no label lookup.
``servekit.ipc.model_counters`` lays them out.

Requests are counted at once. What is known of batches is only noted, and added to the array at the
latest a second later: many batches together take less time than each of them alone.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from time import monotonic, time

from servekit.ipc.counter_share import Share
from servekit.ipc.model_counters import (
    DURATIONS,
    GAUGES,
    LENGTH,
    MOMENTS,
    PARTS,
    PLACES,
    SIZES,
    Label,
    key_of,
)

__all__ = ["ModelMetrics"]

MANY = 600  #: numbers of batches, or reasons, that are added without more delay
MOST_SWEEPS = 10  #: until they are added, however few they are

OTHER_STATUS = PLACES[500]
REQUESTS = PLACES["request_duration_seconds"]
REQUESTS_SUM = REQUESTS + len(DURATIONS) + 1
QUEUES = PLACES["queue_duration_seconds"], DURATIONS
PREDICTS = PLACES["predict_duration_seconds"], DURATIONS
BATCHES = PLACES["batch_size"], SIZES
DECODES = PLACES["decode_duration_seconds"], PARTS
ENCODES = PLACES["encode_duration_seconds"], PARTS
IPCS = PLACES["ipc_duration_seconds"], PARTS
#: in the order of the numbers of each batch in ``ModelMetrics.batches``
OF_A_BATCH = (BATCHES, QUEUES, DECODES, PREDICTS, ENCODES, IPCS)
OK = PLACES[200]
FAILED_SUM = PLACES["failed_s"]
LAST_BATCH = PLACES["last_batch_at"]
FIRST_OUTPUTS = PLACES["first_output_seconds"], DURATIONS
INTERVALS = PLACES["output_interval_seconds"]
INTERVALS_SUM = INTERVALS + len(DURATIONS) + 1

Histogram = tuple[int, tuple[float, ...]]  #: where it begins, and the bounds of its buckets


class ModelMetrics:
    """One front-end's array for one version of a model, or of a stage."""

    __slots__ = ("_sweeps", "answered", "answered_at", "batches", "left", "values")

    def __init__(self, share: Share, label: Label) -> None:
        """Count in *share* under *label*."""
        self.values = share.take(key_of(label), LENGTH, GAUGES, MOMENTS)
        self.answered = 0  #: tasks that workers have answered
        #: ``monotonic``: the last answer of a worker that is not in the array yet; 0.0: none
        self.answered_at = 0.0
        #: six numbers for each answered batch that is not in the array yet: its size, and the
        #: seconds in the queue, in decode, predict and encode, and on the way
        self.batches: list[float] = []
        #: why batches have left the queue, those that are not in the array yet: each of ``LEFT``
        self.left: list[str] = []
        self._sweeps = 0  #: since ``settle``

    def count_status(self, status: int) -> None:
        """Count a response whose duration is not known: a request refused before its route."""
        self.values[PLACES.get(status, OTHER_STATUS)] += 1

    def count_failure(self, status: int, duration_s: float) -> None:
        """Count an error that a request got after *duration_s*."""
        self.count_status(status)
        self.values[FAILED_SUM] += duration_s

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

    def set_tasks(self, waiting: int, running: int) -> None:
        """Set how many tasks are in the queue, and how many workers have; ten times a second."""
        self.values[PLACES["waiting"]] = waiting
        self.values[PLACES["running"]] = running
        self._sweeps += 1
        if self._sweeps >= MOST_SWEEPS or len(self.batches) > MANY or len(self.left) > MANY:
            self.settle()

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
        self._observe(FIRST_OUTPUTS, duration_s)

    def observe_outputs(self, outputs: int, duration_s: float) -> None:
        """Count *outputs* that came *duration_s* after the ones before them in their stream."""
        values = self.values
        values[INTERVALS + bisect_left(DURATIONS, duration_s / outputs)] += outputs
        values[INTERVALS_SUM] += duration_s

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

    # ------------------------------------------------------------ batches

    def settle(self) -> None:
        """Add what was noted of batches to the array."""
        self._sweeps = 0
        if batches := self.batches:
            self.batches = []
            for place, histogram in enumerate(OF_A_BATCH):
                self._observe_all(histogram, batches[place :: len(OF_A_BATCH)])
        if self.left:
            for reason, count in Counter(self.left).items():
                self.values[PLACES[reason]] += count
            self.left.clear()
        if self.answered_at:
            self.values[LAST_BATCH] = time() - (monotonic() - self.answered_at)
            self.answered_at = 0.0

    def observe_calls(self, sizes: Sequence[int], queue_s: float, predict_s: float) -> None:
        """Count one answered batch that took several calls of ``predict``.

        :param sizes: inputs or rows of each call.
        :param predict_s: seconds of all calls together.
        """
        self.observe_queue(queue_s)
        for size in sizes:
            self.observe_step(size, predict_s / len(sizes))

    def observe_queue(self, queue_s: float) -> None:
        """Count a batch by the time that it waited."""
        self._observe(QUEUES, queue_s)

    def observe_step(self, size: int, predict_s: float) -> None:
        """Count a call of ``predict``, or the part of a batch that a stage of a worker had."""
        self._observe(BATCHES, size)
        self._observe(PREDICTS, predict_s)

    def observe_overhead(self, decode_s: float, encode_s: float, ipc_s: float) -> None:
        """Count a batch by the time that it took besides the queue and ``predict``."""
        self._observe(DECODES, decode_s)
        self._observe(ENCODES, encode_s)
        self._observe(IPCS, ipc_s)

    def _observe(self, histogram: Histogram, value: float) -> None:
        start, bounds = histogram
        self.values[start + bisect_left(bounds, value)] += 1
        self.values[start + len(bounds) + 1] += value

    def _observe_all(self, histogram: Histogram, numbers: list[float]) -> None:
        (start, bounds), values, before = histogram, self.values, 0
        values[start + len(bounds) + 1] += sum(numbers)
        numbers.sort()  # so that buckets are looked up, which are fewer
        for place, bound in enumerate(bounds, start):
            end = bisect_right(numbers, bound, before)
            if end > before:
                values[place] += end - before
                before = end
                if end == len(numbers):
                    return
        values[start + len(bounds)] += len(numbers) - before

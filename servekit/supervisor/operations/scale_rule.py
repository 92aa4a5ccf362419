# SPDX-License-Identifier: Apache-2.0
"""Decides whether a stage needs one replica more or one less, by how long its tasks wait."""

from collections import deque
from math import inf

from servekit.ipc.model_counters import StageCounts

__all__ = ["GROW_ABOVE_S", "GROW_AFTER_S", "SHRINK_AFTER_S", "ScaleRule"]

GROW_ABOVE_S = 0.1  #: mean time in the queue, besides ``max_delay_ms``
GROW_AFTER_S = 2.0  #: how long it is above
SHRINK_BELOW_S = GROW_ABOVE_S / 4
SHRINK_AFTER_S = 10.0  #: how long it is below
BUSY = 0.7  #: share of their time for which the remaining replicas may be in predict


class ScaleRule:
    """Judges one stage by samples of its counts; the clock is the caller's."""

    def __init__(self, delay_s: float) -> None:
        """Begin without samples.

        :param delay_s: for which the stage lets tasks wait to fill a batch; not counted as queue.
        """
        self._delay_s = delay_s
        self._samples: deque[tuple[float, StageCounts]] = deque()

    def forget(self) -> None:
        """Judge only by later samples."""
        self._samples.clear()

    def step(self, at: float, counts: StageCounts, replicas: int) -> int:
        """Return 1 for one replica more, -1 for one less, and 0 for as many.

        :param at: the time of *counts*, in seconds.
        """
        samples = self._samples
        samples.append((at, counts))
        while len(samples) > 1 and samples[1][0] <= at - SHRINK_AFTER_S:
            samples.popleft()
        if self._covers(GROW_AFTER_S) and self._queue_s(GROW_AFTER_S) > GROW_ABOVE_S:
            return 1
        if replicas > 1 and self._covers(SHRINK_AFTER_S) and self._can_spare_one(replicas):
            return -1
        return 0

    def _covers(self, window_s: float) -> bool:
        return self._samples[0][0] <= self._samples[-1][0] - window_s

    def _since(self, window_s: float) -> list[tuple[float, StageCounts]]:
        """Return the samples of the last *window_s*, and the one before them."""
        start = self._samples[-1][0] - window_s
        before = [sample for sample in self._samples if sample[0] <= start]
        return [*before[-1:], *(sample for sample in self._samples if sample[0] > start)]

    def _queue_s(self, window_s: float) -> float:
        """Return the mean time in the queue, besides the delay.

        It is infinite while tasks wait and no batch is answered, as with a predict that takes
        longer than the window.
        """
        samples = self._since(window_s)
        first, last = samples[0][1], samples[-1][1]
        batches = last.batches - first.batches
        if batches:
            return max(0.0, (last.queue_s - first.queue_s) / batches - self._delay_s)
        return inf if all(counts.waiting for _, counts in samples) else 0.0

    def _can_spare_one(self, replicas: int) -> bool:
        """Whether nobody waited, and fewer replicas would not be busy all the time."""
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        if self._queue_s(SHRINK_AFTER_S) > SHRINK_BELOW_S:
            return False
        if last.batches == first.batches:
            return not last.running and not last.waiting
        busy = (last.predict_s - first.predict_s) / (ended - began)
        return busy <= BUSY * (replicas - 1)

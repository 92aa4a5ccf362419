# SPDX-License-Identifier: Apache-2.0
"""How fast a model answers, and from that how long its queue will take."""

from collections import deque
from math import ceil

__all__ = ["LONGEST_S", "Throughput", "whole_seconds"]

WINDOW_S = 5.0  #: over which the rate is taken; longer if a batch takes longer
KNOWN_AFTER_S = 1.0  #: of work before the rate says anything
LONGEST_S = 60  #: upper limit of ``Retry-After``


def whole_seconds(seconds: float) -> int:
    """Return *seconds* as ``Retry-After`` says them: rounded up, 1 to ``LONGEST_S``."""
    return min(LONGEST_S, max(1, ceil(seconds)))


class Throughput:
    """Samples a counter of answers now and then, so it costs nothing per request."""

    def __init__(self) -> None:
        #: ``monotonic`` and count, when the work began and whenever the count had grown
        self._samples: deque[tuple[float, float]] = deque()

    def sample(self, now: float, answered: float, *, is_idle: bool) -> None:
        """Note how many tasks were *answered* so far; idle time does not count."""
        samples = self._samples
        if is_idle:
            samples.clear()
        if not samples or answered > samples[-1][1]:
            samples.append((now, answered))
        while len(samples) > 2 and samples[1][0] <= now - WINDOW_S:
            samples.popleft()

    def seconds_for(self, tasks: int, now: float) -> int:
        """Estimate the whole seconds until *tasks* will have been answered.

        While nothing is answered, it is the time that has passed without an answer.
        """
        if not self._samples:
            return 1
        began, before = self._samples[0]
        elapsed, answered = now - began, self._samples[-1][1] - before
        if elapsed < KNOWN_AFTER_S:
            return 1
        return whole_seconds(tasks * elapsed / answered if answered else elapsed)

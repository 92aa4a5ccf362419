# SPDX-License-Identifier: Apache-2.0
"""A token bucket: so many at once, and so many a second in the long run."""

from collections.abc import Callable
from time import monotonic
from typing import Final

__all__ = ["Bucket"]

LONGEST_S: Final = 1e9  #: no wait is longer than this, 31 years: a tiny rate would make it infinite


class Bucket:
    """Holds up to *burst* permits and gets *rate* of them a second."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        """Begin full."""
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._permits = burst
        self._filled_at = clock()

    def take(self) -> float:
        """Take a permit and return 0; or take none, and return in how many seconds there is one."""
        now = self._clock()
        self._permits = min(self._burst, self._permits + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._permits < 1:
            return min((1 - self._permits) / self._rate, LONGEST_S)
        self._permits -= 1
        return 0.0

# SPDX-License-Identifier: Apache-2.0
"""The cost of a batch by its size: measured points, and a line through them."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf
from statistics import median

__all__ = ["BatchTime", "CostCurve", "Line", "fit_line"]


@dataclass(frozen=True, slots=True)
class BatchTime:
    """One batch, as its worker timed it."""

    size: int
    decode_s: float
    predict_s: float
    encode_s: float
    ipc_s: float

    @property
    def total_s(self) -> float:
        """How long the worker could take no other batch."""
        return self.decode_s + self.predict_s + self.encode_s + self.ipc_s


@dataclass(frozen=True, slots=True)
class Line:
    """``base_s + each_s * size``."""

    base_s: float
    each_s: float
    error: float  #: the median distance of the points, relative to their height

    def at(self, size: float) -> float:
        """Return the seconds of a batch of *size*."""
        return max(0.0, self.base_s + self.each_s * size)


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """Return a line through *points* that outliers hardly move.

    The slope is the median of the slopes between all pairs of points (Theil and Sen), the base the
    median of what remains.
    """
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 != x1]
    slope = max(0.0, median(slopes)) if slopes else 0.0
    base = max(0.0, median(y - slope * x for x, y in points))
    errors = [abs(y - base - slope * x) / y for x, y in points if y]
    return Line(base, slope, median(errors) if errors else 0.0)


class CostCurve:
    """The seconds of a batch by its size."""

    def __init__(self, batches: Sequence[BatchTime]) -> None:
        """Take the median of the *batches* of each size, of which there is at least one.

        A larger batch never costs less: a size that took longer than a larger one was disturbed.
        """
        sizes = sorted({batch.size for batch in batches})
        self.batches = list(batches)
        self.points: list[tuple[int, float]] = []
        least_s = inf
        for size in reversed(sizes):
            least_s = min(least_s, median(each.total_s for each in batches if each.size == size))
            self.points.insert(0, (size, least_s))
        self.line = fit_line(self.points)
        self._sizes = sizes

    @property
    def predict(self) -> Line:
        """The line of ``predict`` alone."""
        return fit_line([(each.size, each.predict_s) for each in self.batches][:200])

    @property
    def noise(self) -> float:
        """How much batches of one size differ: the median distance from their median, relative."""
        known = dict(self.points)
        return median(
            abs(each.total_s - known[each.size]) / known[each.size] for each in self.batches
        )

    def seconds(self, size: int) -> float:
        """Return the seconds of a batch of *size*, between the two nearest points."""
        points, place = self.points, bisect_left(self._sizes, size)
        if place < len(points) and points[place][0] == size:
            return points[place][1]
        if place == 0:
            return points[0][1]
        if place == len(points):
            last_size, last_s = points[-1]
            return last_s + self.line.each_s * (size - last_size)
        (x1, y1), (x2, y2) = points[place - 1], points[place]
        return y1 + (y2 - y1) * (size - x1) / (x2 - x1)

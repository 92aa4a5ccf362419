# SPDX-License-Identifier: Apache-2.0
"""How latencies are distributed: the bars of a histogram, the curve of percentiles."""

from typing import Final

import numpy as np
from msgspec import Struct

from servekit_bench.load.measurement import Floats, percentile

__all__ = ["Bin", "histogram", "percentile_curve"]

BINS: Final = 30  #: bars of a histogram
CURVE: Final = 120  #: points of the curve of percentiles


class Bin(Struct, frozen=True):
    """A bar of a histogram."""

    from_ms: float
    to_ms: float
    count: int


def histogram(sorted_s: Floats) -> list[Bin]:
    """Count latencies in bins of equal ratio, from the fastest to the slowest."""
    if not len(sorted_s):
        return []
    low, high = 1e3 * max(sorted_s[0], 1e-6), 1e3 * max(sorted_s[-1], 1e-6) * (1 + 1e-9)
    edges = np.geomspace(low, max(high, low * 1.05), BINS + 1)
    edges[0] = 0.0 if low <= 1e-3 else low * (1 - 1e-9)
    counts, _ = np.histogram(1e3 * sorted_s, edges)
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [Bin(a, b, count) for a, b, count in pairs]


def percentile_curve(sorted_s: Floats) -> list[tuple[float, float]]:
    """Return percentiles, closer together towards 100, as far as there are enough values."""
    count = len(sorted_s)
    if not count:
        return []
    parts = np.geomspace(1.0, 1 / count, CURVE)  # the share of slower ones
    percents = sorted({round(100 * (1 - each), 9) for each in parts.tolist()})
    return [(each, 1e3 * percentile(sorted_s, each)) for each in percents]

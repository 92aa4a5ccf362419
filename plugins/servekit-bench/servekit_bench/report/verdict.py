# SPDX-License-Identifier: Apache-2.0
"""Whether two targets differ, as far as their alternating rounds can tell."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median, stdev
from typing import Final, Literal

from msgspec import Struct

from servekit_bench.report.figures import RoundFigures, TargetFigures

__all__ = ["LEAST_ROUNDS", "FigureDifference", "TargetComparison", "compare", "interval"]

LEAST_ROUNDS: Final = 3
#: Student's t for 99 % of both sides, by degrees of freedom; between two, the one before
STUDENT: Final = {
    2: 9.925,
    3: 5.841,
    4: 4.604,
    5: 4.032,
    6: 3.707,
    7: 3.499,
    8: 3.355,
    9: 3.250,
    10: 3.169,
    12: 3.055,
    15: 2.947,
    20: 2.845,
    30: 2.750,
    60: 2.660,
}
FIGURES: Final[dict[str, Callable[[RoundFigures], float | None]]] = {
    "requests/s": lambda each: each.requests_per_s,
    "p50": lambda each: each.latency_ms.p50,
    "p99": lambda each: each.latency_ms.p99,
}


class FigureDifference(Struct, frozen=True):
    """The second target against the first one, in one figure.

    Each round gives a ratio. ``low`` and ``high`` are the 99 % interval of their geometric mean.
    """

    figure: str  #: ``requests/s``, ``p50`` or ``p99``
    change: float | None  #: the median of the ratios, less 1: 0.1 is 10 % more
    low: float | None  #: ``None`` with fewer than three rounds, as ``high``
    high: float | None
    verdict: Literal["higher", "lower", "no difference seen", "too few rounds"]

    @property
    def words(self) -> str:
        """A sentence without its subject."""
        if self.low is None or self.high is None or self.change is None:
            return f"{self.figure}: {self.verdict}"
        between = f"between {self.low:+.1%} and {self.high:+.1%}"
        if self.verdict == "no difference seen":
            return f"{self.figure}: no difference seen ({between})"
        return f"{self.figure}: {abs(self.change):.1%} {self.verdict} ({between})"


class TargetComparison(Struct, frozen=True):
    """The second target against the first one."""

    first: str
    second: str
    differences: list[FigureDifference]
    caution: str  #: why the figures do not tell all; ``""`` if they do

    @property
    def lines(self) -> list[str]:
        """Return the comparison in words."""
        found = [f"{self.second} against {self.first}:"]
        found += [f"  {each.words}" for each in self.differences]
        return [*found, f"  {self.caution}"] if self.caution else found


def compare(first: TargetFigures, second: TargetFigures, *, is_open: bool) -> TargetComparison:
    """Compare two targets that were measured in the same rounds.

    :param is_open: the rate was given by an open loop, so it says nothing about the targets.
    """
    pairs = list(zip(first.rounds, second.rounds, strict=False))
    names = [name for name in FIGURES if not (is_open and name == "requests/s")]
    differences = [_difference(name, pairs) for name in names]
    return TargetComparison(first.name, second.name, differences, _caution(first, second))


def _difference(name: str, pairs: Sequence[tuple[RoundFigures, RoundFigures]]) -> FigureDifference:
    values = [(FIGURES[name](first), FIGURES[name](second)) for first, second in pairs]
    ratios = [b / a for a, b in values if a and b]
    if len(ratios) < max(LEAST_ROUNDS, len(pairs)):
        return FigureDifference(name, None, None, None, "too few rounds")
    low, high = interval(ratios)
    change = median(ratios) - 1
    if low <= 0 <= high:
        return FigureDifference(name, change, low, high, "no difference seen")
    return FigureDifference(name, change, low, high, "higher" if low > 0 else "lower")


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the 99 % interval of the geometric mean of at least three ratios, less 1."""
    logs = [math.log(each) for each in ratios]
    freedom = max(each for each in STUDENT if each <= len(logs) - 1)
    margin = STUDENT[freedom] * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs) - margin) - 1, math.exp(fmean(logs) + margin) - 1


def _caution(first: TargetFigures, second: TargetFigures) -> str:
    """Mention failures: latencies are those of good answers."""
    shares = [_failed_share(each) for each in (first, second)]
    if max(shares) < 0.001:
        return ""
    return f"failed requests: {shares[1]:.1%} against {shares[0]:.1%}; latencies do not show them"


def _failed_share(target: TargetFigures) -> float:
    requests = sum(each.requests for each in target.rounds)
    failed = sum(each.failed + each.unanswered for each in target.rounds)
    return failed / requests if requests else 0.0

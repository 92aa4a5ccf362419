# SPDX-License-Identifier: Apache-2.0
"""What servekit wants to reach, and whether a run did. A miss is shown, it fails nothing."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.benchmarks.cases import PHOTO, PIPELINE, SUM, Case
from tests.benchmarks.figures import MOSEC, TRITON, Comparison, Spread, of_case, ratio, spread
from tests.benchmarks.results import Results, spread_of

SERVEKIT: Final = "servekit"
MOSEC_SAME: Final = Comparison("mosec with the same batching", SERVEKIT, ("mosec-32",))
MOSEC_BETTER: Final = Comparison("mosec at its better", SERVEKIT, MOSEC)
OIP_TRITON: Final = Comparison("Triton at its better", "oip", TRITON)
OIP_NATIVE: Final = Comparison("native routes", "oip", ("signed",))
SIGNED_STACKING: Final = Comparison("arrays made by the service", "signed", ("stacking",))
SIGNED_PLAIN: Final = Comparison("without one, no arrays", "signed", (SERVEKIT,))
NGINX: Final = Comparison("nginx", SERVEKIT, ("nginx",))

Find = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that is wanted."""

    title: str
    wanted: float
    is_least: bool  #: the figure has to be at least as large, else at most
    find: Find  #: ``None`` when the run did not measure it

    def judge(self, results: Results) -> dict[str, Any]:
        """Return the target beside what was measured."""
        found = self.find(results)
        sign = 1 if self.is_least else -1
        is_reached = None if found is None else sign * found >= sign * self.wanted
        return {
            "title": self.title,
            "wanted": f"{'>=' if self.is_least else '<='} {self.wanted:g}",
            "measured": found,
            "is_reached": is_reached,
        }


def rate_ratio(case: Case, comparison: Comparison, connections: int) -> Find:
    """Return what finds the median ratio of requests/s."""

    def find(results: Results) -> float | None:
        samples = of_case(results.closed, case.key)
        found = {s.server for s in samples if s.connections == connections}
        if not found >= {comparison.server, *comparison.against}:
            return None
        value = ratio(samples, comparison, connections)
        return value.median if value else math.inf

    return find


def share(case: Case, whole: Case, connections: int) -> Find:
    """Return what finds the median share of requests/s that *case* has of those of *whole*."""

    def find(results: Results) -> float | None:
        rates = [
            {
                s.round: s.requests_per_s
                for s in of_case(results.closed, each.key)
                if (s.server, s.connections) == (SERVEKIT, connections)
            }
            for each in (case, whole)
        ]
        shares = [
            rate / rates[1][number] for number, rate in rates[0].items() if number in rates[1]
        ]
        return statistics.median(shares) if shares else None

    return find


def latency_ratio(results: Results) -> float | None:
    """Return servekit's median latency at one connection over that of nginx."""
    samples = of_case(results.closed, SUM.key)
    if not {s.server for s in samples if s.connections == 1} >= {SERVEKIT, "nginx"}:
        return None
    ours, theirs = (spread(samples, key, 1, lambda s: s.p50_ms) for key in (SERVEKIT, "nginx"))
    return ours.median / theirs.median


def start_s(results: Results) -> float | None:
    return _median(spread_of(results.idle, SERVEKIT, lambda s: s.start_s))


def memory_mb(results: Results) -> float | None:
    return _median(spread_of(results.idle, SERVEKIT, lambda s: s.pss_mb))


def _median(found: Spread | None) -> float | None:
    return found.median if found else None


def _ratios(
    what: str, case: Case, comparison: Comparison, wanted: dict[int, float]
) -> tuple[Target, ...]:
    return tuple(
        Target(f"{what} / {comparison.title}, c={c}", least, True, rate_ratio(case, comparison, c))
        for c, least in wanted.items()
    )


TARGETS: Final = (
    *_ratios("small JSON: servekit", SUM, MOSEC_SAME, {1: 12.0}),
    *_ratios("small JSON: servekit", SUM, MOSEC_BETTER, {1: 1.15, 8: 4.5, 32: 2.5, 128: 2.5}),
    *_ratios("small JSON: servekit", SUM, NGINX, {32: 0.5}),
    Target("small JSON: median latency, servekit / nginx, c=1", 3.0, False, latency_ratio),
    Target("three stages / one, servekit, c=32", 0.7, True, share(PIPELINE, SUM, 32)),
    *_ratios("three stages: servekit", PIPELINE, MOSEC_BETTER, {32: 1.0}),
    *_ratios("602,112 B raw: servekit", PHOTO, MOSEC_BETTER, {1: 8.0, 8: 5.0, 32: 4.0}),
    *_ratios("OIP, small JSON: servekit", SUM, OIP_TRITON, {1: 1.5, 8: 1.5, 32: 2.0, 128: 2.0}),
    *_ratios("OIP, small JSON: servekit", SUM, OIP_NATIVE, {32: 0.8}),
    *_ratios("small JSON: a signature", SUM, SIGNED_STACKING, {8: 0.9}),
    *_ratios("small JSON: a signature", SUM, SIGNED_PLAIN, {8: 0.9}),
    *_ratios("OIP, 602,112 B raw: servekit", PHOTO, OIP_TRITON, {8: 3.0}),
    *_ratios("OIP, 602,112 B raw: servekit", PHOTO, OIP_NATIVE, {8: 0.9}),
    Target("servekit start to first answer, warm cache, s", 1.0, False, start_s),
    Target("servekit's idle tree, PSS in MB", 120.0, False, memory_mb),
)


def judge(results: Results) -> list[dict[str, Any]]:
    """Return every target with what came of it."""
    return [target.judge(results) for target in TARGETS]

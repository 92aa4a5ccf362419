# SPDX-License-Identifier: Apache-2.0
"""Finds the load that a target can take: rising until answers fall behind, fail, or are too slow.

A closed loop with ever more connections finds the throughput at which it stops rising. Open loops
at rising shares of it then find the highest rate that the target keeps up with.
"""

from collections.abc import Iterator
from typing import Final, Literal

from servekit_bench.load import ClosedLoop, Load, Measurement, OpenLoop
from servekit_bench.report.figures import LoadStep, SaturationFigures
from servekit_bench.report.words import rate_words
from servekit_bench.rounds import Measuring
from servekit_bench.targets import OpenTarget

__all__ = ["find_saturation"]

CONNECTIONS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
GAIN: Final = 1.05  #: less than this is not a rise of the throughput
SHARES: Final = (0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1)  #: rates of the open loops
NARROWING: Final = 2  #: steps between the last rate that was kept and the first that was not
KEPT: Final = 0.98  #: share of the requests that must be answered in time
FAILED: Final = 0.01  #: share of the requests that may fail


class _Search:
    """One search; ``steps`` grows."""

    def __init__(
        self,
        target: OpenTarget,
        measuring: Measuring,
        p99_s: float | None,
        arrivals: Literal["poisson", "constant"],
    ) -> None:
        self._target, self._measuring, self._p99_s = target, measuring, p99_s
        self._arrivals: Literal["poisson", "constant"] = arrivals
        self.steps: list[LoadStep] = []
        self.is_over = False

    def capacity(self) -> LoadStep | None:
        """Return the closed loop with the highest throughput."""
        best, without_gain = None, 0
        for connections in CONNECTIONS:
            step = self._try(ClosedLoop(connections), f"{connections} connections")
            if self.is_over or step.failed_share > FAILED:
                break
            if best is None or step.requests_per_s > best.requests_per_s * GAIN:
                without_gain = 0
            else:
                without_gain += 1
            if best is None or step.requests_per_s > best.requests_per_s:
                best = step
            if without_gain == 2:
                break
        return best

    def highest_rate(self, capacity: float) -> LoadStep | None:
        """Return the open loop with the highest rate that is kept."""
        kept, low, high = None, 0.0, None
        for rate in self._rates(capacity):
            step = self._at(rate)
            if self.is_over:
                return kept
            if not step.is_kept:
                high = rate
                break
            kept, low = step, rate
        for _ in range(NARROWING if high else 0):
            assert high is not None
            step = self._at((low + high) / 2)
            if self.is_over:
                break
            if step.is_kept:
                kept, low = step, (low + high) / 2
            else:
                high = (low + high) / 2
        return kept

    def _rates(self, capacity: float) -> Iterator[float]:
        return (share * capacity for share in SHARES)

    def _at(self, rate: float) -> LoadStep:
        """Try a rate; one that is not kept is tried again, since it may have been bad luck."""
        step = self._once(rate)
        return step if step.is_kept or self.is_over else self._once(rate)

    def _once(self, rate: float) -> LoadStep:
        return self._try(
            OpenLoop(rate, self._arrivals, CONNECTIONS[-1]), f"{rate_words(rate)} requests/s"
        )

    def _try(self, load: Load, what: str) -> LoadStep:
        seen = self._measuring.measure(self._target, load, f"saturation: {what}")
        self.is_over = seen.was_stopped or self._measuring.is_over
        step = _step(load, seen, self._p99_s)
        if not seen.was_stopped:
            self.steps.append(step)
        return step


def _step(load: Load, seen: Measurement, p99_s: float | None) -> LoadStep:
    rate = load.rate if isinstance(load, OpenLoop) else None
    share = (seen.failed + seen.unanswered) / seen.requests if seen.requests else 1.0
    in_time = seen.answered / seen.requests if seen.requests else 0.0
    is_fast = p99_s is None or seen.percentile_s(99) <= p99_s
    return LoadStep(
        connections=load.connections,
        rate=rate,
        requests_per_s=seen.requests_per_s,
        p50_ms=_milliseconds(seen, 50),
        p99_ms=_milliseconds(seen, 99),
        failed_share=share,
        is_kept=is_fast and share <= FAILED and (rate is None or in_time >= KEPT),
        limit=seen.limit,
    )


def _milliseconds(seen: Measurement, percent: float) -> float | None:
    return 1e3 * seen.percentile_s(percent) if len(seen.latencies_s) else None


def find_saturation(
    target: OpenTarget,
    measuring: Measuring,
    *,
    p99_s: float | None,
    arrivals: Literal["poisson", "constant"],
) -> tuple[SaturationFigures, bool]:
    """Search, and return what was found and whether the search was ended early.

    :param p99_s: the highest 99th percentile that counts as kept; ``None``: any.
    """
    search = _Search(target, measuring, p99_s, arrivals)
    capacity = search.capacity()
    has_more = capacity is not None and not search.is_over
    kept = search.highest_rate(capacity.requests_per_s) if has_more and capacity else None
    figures = SaturationFigures(
        name=target.name,
        url=target.url,
        p99_ms=None if p99_s is None else 1e3 * p99_s,
        capacity=capacity,
        highest=kept,
        steps=search.steps,
    )
    return figures, search.is_over

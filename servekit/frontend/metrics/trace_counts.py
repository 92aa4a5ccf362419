# SPDX-License-Identifier: Apache-2.0
"""How many traces of requests the observer has got, and how many it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from prometheus_client.core import CounterMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from servekit.ipc.counter_share import Share
    from servekit.ipc.counters import Counters

__all__ = ["RESULTS", "TraceCounts", "traced"]

KEY: Final = ("traces",)
RESULTS: Final = ("sent", "dropped", "limited")


class TraceCounts:
    """Those of one front-end."""

    def __init__(self, share: Share | None = None) -> None:
        """Count in *share*, which all front-ends read, or for this object alone."""
        self.numbers: list[float] | memoryview[float] = [0.0] * len(RESULTS)
        if share is not None:
            self.numbers = share.take(KEY, len(RESULTS))

    def count(self, result: Literal["sent", "dropped", "limited"], traces: int = 1) -> None:
        """Count *traces*."""
        self.numbers[RESULTS.index(result)] += traces


def traced(counters: Counters) -> Iterator[Metric]:
    """Yield the series of the traces of all front-ends."""
    text = "Traces of requests, by what has become of them"
    family = CounterMetricFamily("servekit_traces", text, labels=["result"])
    numbers = counters.read(lambda key: key == KEY).get(KEY, [0.0] * len(RESULTS))
    for result, number in zip(RESULTS, numbers, strict=True):
        family.add_metric([result], number)
    yield family

# SPDX-License-Identifier: Apache-2.0
"""The values of ``prometheus_client`` in the memory that all front-ends see.

By itself it shares them in a mapped file for each process: the files pile up, and a full disk
kills the process that writes to one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.values import MutexValue

from servekit.ipc.counter_share import Key, Share
from servekit.ipc.counters import Counters

__all__ = ["collect", "shared_value"]

KEY: Final = "prometheus"  #: then: kind, metric, help, sample, and names and values of labels
FIXED: Final = 5  #: parts of a key before its labels


def shared_value(share: Share) -> type[MutexValue]:
    """Return the class of values that are stored in *share*; gauges stay in this process."""

    class SharedValue(MutexValue):
        """One number of a metric."""

        def __init__(
            self,
            typ: str,
            metric_name: str,
            name: str,
            labelnames: Sequence[str],
            labelvalues: Sequence[str],
            help_text: str,
            **more: Any,
        ) -> None:
            super().__init__(typ, metric_name, name, labelnames, labelvalues, help_text, **more)  # type: ignore[no-untyped-call]
            self._shared: memoryview[float] | None = None
            if typ != "gauge":
                labels = [
                    part for pair in zip(labelnames, labelvalues, strict=True) for part in pair
                ]
                self._shared = share.take((KEY, typ, metric_name, help_text, name, *labels), 1)

        def inc(self, amount: float) -> None:
            super().inc(amount)  # type: ignore[no-untyped-call]
            if self._shared is not None:
                self._shared[0] = self._value

    return SharedValue


def collect(counters: Counters) -> Iterable[Metric]:
    """Return the families of all front-ends together."""
    families: dict[str, Metric] = {}
    buckets: dict[tuple[str, Key], list[tuple[float, str, float]]] = defaultdict(list)
    for key, (value,) in [each for each in counters.read().items() if each[0][0] == KEY]:
        _, kind, metric, text, sample = key[:FIXED]
        labels = dict(zip(key[FIXED::2], key[FIXED + 1 :: 2], strict=True))
        family = families.setdefault(metric, Metric(metric, text, kind))
        bound = labels.pop("le", None)
        if bound is None:
            family.add_sample(sample, labels, value)
        else:
            rest = tuple(part for pair in labels.items() for part in pair)
            buckets[metric, rest].append((float(bound), bound, value))
    for (metric, rest), found in buckets.items():
        _add_up(families[metric], dict(zip(rest[::2], rest[1::2], strict=True)), sorted(found))
    return families.values()


def _add_up(
    family: Metric, labels: dict[str, str], buckets: Sequence[tuple[float, str, float]]
) -> None:
    """Add the samples of one histogram, whose buckets are counted each by itself."""
    count = 0.0
    for _, bound, value in buckets:
        count += value
        family.add_sample(f"{family.name}_bucket", labels | {"le": bound}, count)
    family.add_sample(f"{family.name}_count", labels, count)

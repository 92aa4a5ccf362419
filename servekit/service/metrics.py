# SPDX-License-Identifier: Apache-2.0
"""A service's own metrics. Runs in: worker."""

from __future__ import annotations

import re
from bisect import bisect_left
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal

from msgspec import msgpack

from servekit.ipc.arena import Arena
from servekit.ipc.batches import Slab
from servekit.ipc.metric_memory import END, HEADER, NAME, OTHER, SIZE, Series, padded

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Counter", "Gauge", "Histogram", "Metrics"]

MAX_SERIES: Final = 100  #: series of one metric; label values of further ones are "other"
MAX_VALUE: Final = 128  #: characters of a label value
DURATIONS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
TAKEN: Final = ("model", "replica", "stage", "le")
SUFFIXES: Final = ("_total", "_count", "_sum", "_bucket", "_created", "_info")

Kind = Literal["counter", "gauge", "histogram"]


class Metric:
    """One metric, with a series for each set of label values."""

    def __init__(
        self, metrics: Metrics, kind: Kind, name: str, text: str, labels: Sequence[str], size: int
    ) -> None:
        """Hold one series: the only one without labels, or the one for further label values."""
        self._metrics, self._kind, self._name, self._text = metrics, kind, name, text
        self._labels, self._size = dict.fromkeys(labels), size
        self._bounds: tuple[float, ...] = ()
        self._offsets: dict[tuple[str, ...], int] = {}

    def begin(self, bounds: Sequence[float] = ()) -> None:
        """Take the first series."""
        self._bounds = tuple(bounds)
        self._first = self._make((OTHER,) * len(self._labels))

    def _offset(self, labels: dict[str, object]) -> int:
        """Return where the doubles of a series begin. Called with the lock held."""
        if labels.keys() != self._labels.keys():
            raise ValueError(f"{self._name}: labels {[*labels]}, expected {[*self._labels]}")
        key = tuple(str(labels[name])[:MAX_VALUE] for name in self._labels)
        offset = self._offsets.get(key)
        return self._make(key) if offset is None else offset

    def _make(self, key: tuple[str, ...]) -> int:
        """Return the offset of a new series, or of the first one if there are too many."""
        if len(self._offsets) > MAX_SERIES:
            return self._first
        labels = dict(zip(self._labels, key, strict=True))
        series = Series(self._kind, self._name, self._text, labels, list(self._bounds))
        offset = self._metrics.take(series, self._size)
        if offset is None:
            if not self._offsets:
                raise ValueError(f"{self._name}: there is no room for more metrics")
            return self._first
        self._offsets[key] = offset
        return offset

    def _add(self, amount: float, labels: dict[str, object]) -> None:
        metrics = self._metrics
        with metrics.lock:
            metrics.values[self._offset(labels)] += amount


class Counter(Metric):
    """Counts up; begins at 0 with each worker."""

    def inc(self, amount: float = 1, **labels: object) -> None:
        """Count *amount* more, which is not negative."""
        if amount < 0:
            raise ValueError(f"{self._name}: a counter does not go down")
        self._add(amount, labels)


class Gauge(Metric):
    """A value that goes up and down."""

    def set(self, value: float, **labels: object) -> None:
        """Set it to *value*."""
        with self._metrics.lock:
            self._metrics.values[self._offset(labels)] = value

    def inc(self, amount: float = 1, **labels: object) -> None:
        """Add *amount*, which may be negative."""
        self._add(amount, labels)


class Histogram(Metric):
    """Counts values by size."""

    def observe(self, value: float, **labels: object) -> None:
        """Count *value*."""
        metrics = self._metrics
        with metrics.lock:
            offset = self._offset(labels)
            metrics.values[offset + bisect_left(self._bounds, value)] += 1
            metrics.values[offset + len(self._bounds) + 1] += value


class Metrics:
    """The type of ``context.metrics``. Create metrics in ``load``; any thread may update them."""

    def __init__(self, stage: str = "", memory: Memory | None = None) -> None:
        """Allocate no memory before there is a metric.

        :param stage: the stage of the metrics; "" is the stage of the worker.
        :param memory: that of the metrics of other services of this process.
        """
        self._memory = memory or Memory()
        self.lock = self._memory.lock
        self._own = {"stage": stage} if stage else {}
        self._names: set[str] = set()
        self._is_sealed = False

    def colocated(self, stage: str) -> Metrics:
        """Return those of another *stage* of this process, which lie in the same memory."""
        return Metrics(stage, self._memory)

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the memory; ``None`` if there is no metric."""
        arena = self._memory.arena
        return arena.descriptor if arena is not None else None

    @property
    def memory(self) -> memoryview:
        """All of the memory; there must be a metric."""
        return self._memory.view

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Make ``servekit_model_NAME_total``.

        :raises ValueError: a name is not valid, or used already.
        """
        metric = Counter(self, "counter", self._named(name, labels), text, labels, 1)
        metric.begin()
        return metric

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """Make ``servekit_model_NAME``; see ``counter``."""
        metric = Gauge(self, "gauge", self._named(name, labels), text, labels, 1)
        metric.begin()
        return metric

    def histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = DURATIONS,
    ) -> Histogram:
        """Make ``servekit_model_NAME``; *buckets* are upper bounds, ascending; see ``counter``."""
        if not buckets or list(buckets) != sorted(set(buckets)):
            raise ValueError(f"{name}: buckets must ascend")
        size = len(buckets) + 2
        metric = Histogram(self, "histogram", self._named(name, labels), text, labels, size)
        metric.begin(buckets)
        return metric

    def seal(self) -> None:
        """Accept no more metrics: the front-ends learn once whether there are any."""
        self._is_sealed = True

    def take(self, series: Series, size: int) -> int | None:
        """Return the index in ``values`` of *size* doubles for *series*, if there is room."""
        series.labels |= self._own
        return self._memory.take(msgpack.encode(series), size)

    def _named(self, name: str, labels: Sequence[str]) -> str:
        """Return *name*, which is this metric's from now on."""
        if self._is_sealed:
            raise RuntimeError(f"{name}: create metrics in load()")
        if isinstance(labels, str) or any(label in TAKEN for label in labels):
            raise ValueError(f"{name}: labels are a list of names, none of {', '.join(TAKEN)}")
        for each in (name, *labels):
            if not re.fullmatch(NAME, each) or each.endswith(SUFFIXES):
                raise ValueError(f"{each!r} is not a valid name of a metric or a label")
        if name in self._names:
            raise ValueError(f"{name}: is used already")
        self._names.add(name)
        self.values = self._memory.open()
        return name


class Memory:
    """Where the series of one process lie; see ``measures``."""

    def __init__(self) -> None:
        """Take none yet."""
        self.lock = Lock()
        self.arena: Arena | None = None
        self._end = END.size

    @property
    def view(self) -> memoryview:
        """All of it; it must be open."""
        assert self.arena is not None
        return self.arena.view(Slab(0, SIZE))

    def open(self) -> memoryview[float]:
        """Return its doubles."""
        if self.arena is None:
            self.arena = Arena(SIZE, "servekit-metrics")
        return self.view.cast("d")

    def take(self, description: bytes, size: int) -> int | None:
        """Return the index of *size* doubles for the series of *description*, if there is room."""
        room = padded(len(description))
        start = self._end + HEADER.size
        end = start + room + size * 8
        if end > SIZE:
            return None
        memory = self.view
        HEADER.pack_into(memory, self._end, len(description), size)
        memory[start : start + len(description)] = description
        self._end = end
        END.pack_into(memory, 0, end)
        return (start + room) // 8

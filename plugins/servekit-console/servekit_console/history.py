# SPDX-License-Identifier: Apache-2.0
"""The last half hour: how each version did, and the slowest requests. Runs in: observer."""

from array import array
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from heapq import heappop, heappush
from math import nan
from operator import attrgetter
from pathlib import Path
from time import time
from typing import Final

from msgspec import MsgspecError, Struct, msgpack

from servekit.extension import RequestTraced
from servekit_console.samples import NOTHING, Rates, VersionSample, rates_between

__all__ = ["INTERVAL_S", "POINTS", "History", "HistoryPage"]

INTERVAL_S: Final = 10.0  #: between two points
POINTS: Final = 180  #: half an hour
KEPT_S: Final = 1800.0  #: how long traces are kept
SLICE_S: Final = 300.0  #: the slowest requests of each model are kept for slices of this length
MOST_OF_SLICE: Final = 20  #: slow requests of one model in one slice
MAX_TRACES: Final = 1000  #: slow requests of all models together
MAX_SAMPLED: Final = 100  #: sampled requests; of these, thousands may come in a second
DURATION_OF: Final = attrgetter("duration_s")
SlowTrace = tuple[float, int, RequestTraced]  #: duration, number of order, trace
FIELDS: Final = Rates.__struct_fields__


class HistoryPage(Struct, array_like=True):
    """Numbers of all versions. Series of fewer points than *times* have the last ones."""

    times: Sequence[float] = ()  #: seconds since 1970
    #: by key of the version and field of ``Rates``: 32-bit floats, nan where nothing was measured
    series: dict[str, dict[str, bytes]] = {}

    def values(self, key: str, field: str) -> "array[float]":
        """Return the numbers of one *field* of a version; none if nothing is known of it."""
        return array("f", self.series.get(key, {}).get(field, b""))


class History:
    """Bounded: a point of each version every ten seconds, and a thousand traces.

    Of slow requests the slowest of each model in each slice of time stay, so that neither a busy
    model nor a busy minute displaces those of others.
    """

    def __init__(self) -> None:
        """Begin without points."""
        self._times: deque[float] = deque(maxlen=POINTS)
        self._series: dict[str, dict[str, array[float]]] = {}
        self._before: tuple[float, dict[str, VersionSample]] | None = None
        #: the slowest of each model and slice, the fastest first: heaps
        self._slow: dict[tuple[int, str], list[SlowTrace]] = {}
        self._number = 0  #: slow requests that were added
        self._sampled: list[RequestTraced] = []  #: the slowest, and some of the newest

    def add_samples(self, now_s: float, samples: Sequence[VersionSample]) -> None:
        """Add a point for each version; the first samples are only compared with."""
        by_key = {each.key: each for each in samples}
        before, self._before = self._before, (now_s, by_key)
        if before is None or now_s <= before[0]:
            return
        rates = rates_between(before[1], samples, now_s - before[0])
        self._times.append(now_s)
        self._series = {key: self._series.get(key) or _empty() for key in by_key}
        for key, series in self._series.items():
            for field, value in zip(FIELDS, _numbers(rates.get(key, NOTHING)), strict=True):
                series[field].append(value)
                del series[field][:-POINTS]

    def add_trace(self, trace: RequestTraced) -> None:
        """Keep *trace*; sampled requests that were fast make room for others."""
        if trace.reason == "slow":
            self._add_slow(trace)
            return
        self._sampled.append(trace)
        if len(self._sampled) > 2 * MAX_SAMPLED:
            oldest_s = time() - KEPT_S
            recent = [each for each in self._sampled if each.time_s > oldest_s]
            self._sampled = sorted(recent, key=DURATION_OF)[-MAX_SAMPLED:]

    def _add_slow(self, trace: RequestTraced) -> None:
        """Keep *trace* if it is among the slowest of its model and slice."""
        key = int(trace.time_s // SLICE_S), trace.model
        if key not in self._slow:
            oldest = (time() - KEPT_S) // SLICE_S
            self._slow = {other: kept for other, kept in self._slow.items() if other[0] >= oldest}
        kept = self._slow.setdefault(key, [])
        self._number += 1
        heappush(kept, (trace.duration_s, self._number, trace))
        if len(kept) > MOST_OF_SLICE:
            heappop(kept)
        if sum(map(len, self._slow.values())) > MAX_TRACES:
            fullest = max(self._slow, key=lambda each: (len(self._slow[each]), -each[0]))
            heappop(self._slow[fullest])
            if not self._slow[fullest]:
                del self._slow[fullest]

    def page(self, fields: Sequence[str], keys: Sequence[str] = ()) -> HistoryPage:
        """Return the numbers of some *fields*, of all versions or those with *keys*."""
        wanted = [key for key in self._series if not keys or key in keys]
        return HistoryPage(
            list(self._times),
            {
                key: {field: self._series[key][field].tobytes() for field in fields}
                for key in wanted
            },
        )

    def traces(self, model: str, limit: int) -> list[RequestTraced]:
        """Return the slowest requests of *model*, or of all ("")."""
        oldest_s = time() - KEPT_S
        found = [
            each
            for each in self._all_traces()
            if each.time_s > oldest_s and (not model or each.model == model)
        ]
        return sorted(found, key=lambda each: -each.duration_s)[:limit]

    def trace(self, request_id: str) -> RequestTraced | None:
        """Return the trace of a request, if it is kept."""
        found = (each for each in reversed(self._all_traces()) if each.request_id == request_id)
        return next(found, None)

    def _all_traces(self) -> list[RequestTraced]:
        slow = (trace for kept in self._slow.values() for _, _, trace in kept)
        return [*self._sampled, *slow]

    # ------------------------------------------------------------ from one observer to the next

    def write(self, path: Path) -> None:
        """Write everything to *path*, whole or not at all.

        :raises OSError: the disk is full.
        """
        new = path.with_suffix(".new")
        new.write_bytes(msgpack.encode((self.page(FIELDS), self._all_traces())))
        new.replace(path)

    def read(self, path: Path) -> None:
        """Take over what another observer has written to *path*, if it has."""
        with suppress(OSError, MsgspecError):
            page, traces = msgpack.decode(
                path.read_bytes(), type=tuple[HistoryPage, list[RequestTraced]]
            )
            self._times.extend(page.times)
            for key in page.series:
                self._series[key] = {field: page.values(key, field) for field in FIELDS}
            for each in traces:
                self.add_trace(each)


def _empty() -> "dict[str, array[float]]":
    return {field: array("f") for field in FIELDS}


def _numbers(rates: Rates) -> list[float]:
    values = [getattr(rates, field) for field in FIELDS]
    return [nan if value is None else value for value in values]

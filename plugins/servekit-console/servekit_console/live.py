# SPDX-License-Identifier: Apache-2.0
"""Changes on open pages, as server-sent events.

Each front-end takes samples of the counters only while one of its streams is open, and all of its
streams share them.
"""

from __future__ import annotations

from collections import deque
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

import msgspec
from flask import Blueprint, Response, stream_with_context

from servekit_console.samples import NOTHING, Rates, VersionSample, rates_between, take_samples
from servekit_console.units import duration, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from servekit.extension import Server
    from servekit_console.overview import OverviewPage

__all__ = ["LIVE", "LiveRates", "add_stream", "combined", "texts_of"]

TICK_S: Final = 2.0  #: between two events
LOOK_S: Final = 0.25  #: how often a stream looks whether the front-end drains
WINDOW_S: Final = 7.0  #: rates are those of the last seconds
SPARK_TICKS: Final = 5  #: small charts get a point every ten seconds
#: the fields of ``Rates`` that pages keep up to date, in the order of the cells
LIVE: Final[dict[str, Callable[[float | None], str]]] = {
    "requests_per_s": number,
    "p50_s": duration,
    "p99_s": duration,
    "waiting": number,
    "batch_size": number,
    "refused_per_s": number,
    "errors_per_s": number,
}


class LiveRates:
    """The rates of the last seconds. One for each front-end."""

    def __init__(self, server: Server) -> None:
        """Take no sample yet."""
        self._server = server
        self._samples: deque[tuple[float, dict[str, VersionSample]]] = deque()
        self._rates: dict[str, Rates] = {}

    def read(self) -> dict[str, Rates]:
        """Return the rates of each version by key; none until there are two recent samples."""
        now = monotonic()
        if self._samples and now - self._samples[-1][0] < TICK_S / 2:
            return self._rates
        while self._samples and now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        samples = take_samples(self._server)
        self._rates = {}
        if self._samples:
            then, before = self._samples[0]
            self._rates = rates_between(before, samples, now - then)
        self._samples.append((now, {each.key: each for each in samples}))
        return self._rates


def combined(rates: Sequence[Rates]) -> Rates:
    """Return the rates of several versions or models together; of latencies the worst."""
    if len(rates) == 1:
        return rates[0]
    return Rates(
        sum(each.requests_per_s for each in rates),
        sum(each.refused_per_s for each in rates),
        sum(each.errors_per_s for each in rates),
        _most(each.p50_s for each in rates),
        _most(each.p99_s for each in rates),
        _most(each.batch_size for each in rates),
        _most(each.queue_s for each in rates),
        _most(each.predict_s for each in rates),
        sum(each.waiting for each in rates),
        sum(each.running for each in rates),
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def texts_of(rates: Rates) -> list[str]:
    """Return the fields in ``LIVE`` as they are shown."""
    return [show(getattr(rates, field)) for field, show in LIVE.items()]


def add_stream(pages: Blueprint, server: Server, live: LiveRates, overview: OverviewPage) -> None:
    """Add ``/console/live``: what changes on pages, while they are open.

    Events: ``rates`` with the numbers of each model and of all together; ``sparks`` with the small
    charts; ``memory`` with that of each model and of all together; ``news`` when there is a new
    problem or a new line among the last events; ``changed`` when models or their replicas have
    changed.
    """

    def events() -> Iterator[bytes]:
        table, state, tick = server.models, _state_of(server), 0
        said = overview.news()
        yield b"retry: 2000\n\n"
        while _is_time(server):
            tick += 1
            rates = live.read()
            if rates:
                yield _event("rates", _texts(server, rates))
            if server.models is not table:
                table, before, state = server.models, state, _state_of(server)
                if state != before:
                    yield _event("changed", {})
            if tick % SPARK_TICKS == 0:
                yield _event("sparks", overview.sparks())
                yield _event("memory", overview.memory())
                known, said = said, overview.news()
                if said != known:
                    yield _event("news", {})

    def stream() -> Response:
        told = stream_with_context(events())
        return Response(told, mimetype="text/event-stream", headers={"X-Accel-Buffering": "no"})

    pages.add_url_rule("/live", "live", stream)


def _is_time(server: Server) -> bool:
    """Wait for the next event; return whether there is one."""
    end = monotonic() + TICK_S
    while monotonic() < end and not server.is_draining:
        sleep(LOOK_S)
    return not server.is_draining


def _state_of(server: Server) -> list[Any]:
    """Return everything whose change has a page loaded again; tables change for other reasons."""
    return [
        [
            version["version"],
            version["reason"],
            [(replica["state"], replica["pid"]) for replica in version["replicas"]],
            model["name"],
            model["traffic"],
        ]
        for model in server.read_management("/models")["models"]
        for version in (model, *model["versions"])
    ]


def _texts(server: Server, rates: dict[str, Rates]) -> dict[str, Any]:
    models: dict[str, list[str]] = {}
    everything: list[Rates] = []
    for name, model in server.models.items():
        versions = {model.version, *(each.version for each in model.others.values())}
        own = combined([rates.get(f"{name}/{version}", NOTHING) for version in versions])
        everything.append(own)
        models[name] = texts_of(own)
    return {"models": models, "total": texts_of(combined(everything))}


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))

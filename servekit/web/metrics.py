# SPDX-License-Identifier: Apache-2.0
"""``/metrics``: the hot path's series and those of the Flask routes, in one exposition.

The labels come from closed sets (rules, methods, statuses): a client that makes up
paths and methods adds no series.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from flask import Flask, Request, Response, request
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_flask_exporter import PrometheusMetrics

from servekit.web.view import ServerView

__all__ = ["add_metrics"]

#: where the front-ends of one server keep their series together, if there are several
SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
METHODS: Final = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class HotPath(Collector):
    """The series of the hot path as ``prometheus_client`` wants them."""

    def __init__(self, server: ServerView) -> None:
        """Store; nothing is read before a scrape."""
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """Yield the series as they are now."""
        yield from self._server.routing.collect()
        if self._server.jobs is not None:
            yield from self._server.jobs.collect()


class Shared(Collector):
    """The series of the Flask routes, from the files of all front-ends."""

    def __init__(self, directory: str) -> None:
        """Store; nothing is read before a scrape."""
        self._directory = Path(directory)

    def collect(self) -> Iterable[Metric]:
        """Return the sums; a file without bytes is one that a front-end is just making."""
        files = [str(path) for path in self._directory.glob("*.db") if path.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        return merged


def add_metrics(app: Flask, server: ServerView) -> None:
    """Measure every route of *app* and add ``/metrics``."""
    registry = CollectorRegistry()
    directory = os.environ.get(SHARED)
    if directory:
        Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    PrometheusMetrics(app, path=None, registry=registry, group_by=rule)
    app.before_request(leave_out_odd_methods)

    def metrics() -> Response:
        flask_series = Shared(directory) if directory else registry
        encode, media_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(_together(flask_series, server)), content_type=media_type)

    app.add_url_rule("/metrics", "metrics", metrics)


def rule(of: Request) -> str:
    """Return the route pattern that answers: the exporter's label, named as this function."""
    return of.url_rule.rule if of.url_rule else "none"


def leave_out_odd_methods() -> None:
    """Keep a method that no route has out of the exporter's labels."""
    if request.method not in METHODS:
        request.prom_do_not_track = True  # type: ignore[attr-defined]


def _together(flask_series: Collector, server: ServerView) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(HotPath(server))
    registry.register(flask_series)
    return registry

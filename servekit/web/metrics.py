# SPDX-License-Identifier: Apache-2.0
"""``/metrics``: the hot path's series and those of the Flask routes, in one exposition.

The labels come from closed sets (rules, methods, statuses): a client that makes up
paths and methods adds no series.
"""

from collections.abc import Iterable
from typing import Final

from flask import Flask, Request, Response, request
from prometheus_client import CollectorRegistry, Metric, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_flask_exporter import PrometheusMetrics

from servekit.web.shared_values import collect, shared_value
from servekit.web.view import ServerView

__all__ = ["add_metrics"]

METHODS: Final = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Together(Collector):
    """The series of the hot path, and those of the Flask routes at all front-ends."""

    def __init__(self, server: ServerView, own: CollectorRegistry) -> None:
        """Store; nothing is read before a scrape.

        :param own: what the routes of this front-end count in.
        """
        self._server = server
        self._own = own

    def collect(self) -> Iterable[Metric]:
        """Yield the series as they are now."""
        yield from self._server.routing.collect()
        for collect_more in self._server.collectors:
            yield from collect_more()
        counters = self._server.counters
        for family in self._own.collect():
            if counters is None or family.type == "gauge":
                yield family
        if counters is not None:
            yield from collect(counters)


def add_metrics(app: Flask, server: ServerView) -> None:
    """Measure every route of *app* and add ``/metrics``."""
    if server.share is not None:
        values.ValueClass = shared_value(server.share)
    own = CollectorRegistry()
    PrometheusMetrics(app, path=None, registry=own, group_by=rule)
    app.before_request(leave_out_odd_methods)
    together = CollectorRegistry()
    together.register(Together(server, own))

    def metrics() -> Response:
        encode, media_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(together), content_type=media_type)

    app.add_url_rule("/metrics", "metrics", metrics)


def rule(of: Request) -> str:
    """Return the route pattern that answers: the exporter's label, named as this function."""
    return of.url_rule.rule if of.url_rule else "none"


def leave_out_odd_methods() -> None:
    """Keep a method that no route has out of the exporter's labels."""
    if request.method not in METHODS:
        request.prom_do_not_track = True  # type: ignore[attr-defined]

# SPDX-License-Identifier: Apache-2.0
"""``/metrics``: the series of the hot path, of plugins and of all Flask routes, on one page.

prometheus-flask-exporter measures the routes: the server's own, those of plugins, and those of
management. The labels come from closed sets (rules, methods, statuses), so a client that makes up
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

__all__ = ["RouteMetrics"]

METHODS: Final = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class RouteMetrics(Collector):
    """The Flask apps of one front-end, measured, and everything that ``/metrics`` shows."""

    def __init__(self, server: ServerView) -> None:
        """Measure nothing yet; nothing is read before a scrape."""
        self._server = server
        self._own: list[CollectorRegistry] = []  #: one for each app
        values.ValueClass = shared_value(server.share)

    def measure(self, app: Flask, listener: str) -> None:
        """Measure every route of *app*, under the label *listener*."""
        own = CollectorRegistry()
        PrometheusMetrics(
            app, path=None, registry=own, group_by=rule, default_labels={"listener": listener}
        )
        app.before_request(leave_out_odd_methods)
        self._own.append(own)

    def add_page(self, app: Flask) -> None:
        """Add ``/metrics`` to *app*."""
        everything = CollectorRegistry()
        everything.register(self)

        def metrics() -> Response:
            encode, media_type = choose_encoder(request.headers.get("Accept", ""))
            return Response(encode(everything), content_type=media_type)

        app.add_url_rule("/metrics", "metrics", metrics)

    def collect(self) -> Iterable[Metric]:
        """Yield the series as they are now."""
        for collect_families in self._server.collectors:
            yield from collect_families()
        own = (family for registry in self._own for family in registry.collect())
        yield from merged(each for each in own if each.type == "gauge")
        yield from collect(self._server.counters)


def merged(families: Iterable[Metric]) -> Iterable[Metric]:
    """Return *families*, the samples of one name together and none of them twice."""
    found: dict[str, Metric] = {}
    for family in families:
        first = found.setdefault(family.name, family)
        first.samples.extend(each for each in family.samples if each not in first.samples)
    return found.values()


def rule(of: Request) -> str:
    """Return the route pattern that answers: the exporter's label, named as this function."""
    return of.url_rule.rule if of.url_rule else "none"


def leave_out_odd_methods() -> None:
    """Keep a method that no route has out of the exporter's labels."""
    if request.method not in METHODS:
        request.prom_do_not_track = True  # type: ignore[attr-defined]

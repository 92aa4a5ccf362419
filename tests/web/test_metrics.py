# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` holds both worlds, and no client can make it grow."""

import os

import pytest
from prometheus_client import values
from prometheus_client.core import CounterMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from servekit.ipc.counters import Counters, create_memory

from .fakes import FakeServer

OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def samples(client, name):
    """Return the labels and values of one series."""
    families = plain_text(client.get("/metrics").text)
    return [
        (each.labels, each.value)
        for family in families
        for each in family.samples
        if each.name == name
    ]


def test_the_series_of_the_hot_path_are_read_at_every_scrape(server, client):
    counter = CounterMetricFamily("servekit_requests", "Predictions", labels=["model"])
    counter.add_metric(["digits"], 3)
    server.series = [counter]

    assert samples(client, "servekit_requests_total") == [({"model": "digits"}, 3.0)]


def test_flask_routes_are_counted_under_their_rule(client):
    client.get("/digits/ping")
    client.get("/echo/ping")

    counted = samples(client, "flask_http_request_duration_seconds_count")

    labels = {"listener": "public", "method": "GET", "rule": "/<model>/ping", "status": "200"}
    assert (labels, 2.0) in counted


@pytest.mark.parametrize(
    ("headers", "media_type", "parse"),
    [({}, "text/plain", plain_text), (OPEN_METRICS, "application/openmetrics-text", open_metrics)],
)
def test_the_exposition_parses_in_the_format_that_was_asked_for(
    server, client, headers, media_type, parse
):
    server.series = [CounterMetricFamily("servekit_requests", "Predictions", value=1)]

    answer = client.get("/metrics", headers=headers)

    assert answer.mimetype == media_type
    assert "servekit_requests" in {family.name for family in parse(answer.text)}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/made/up/{}"), ("GET", "/{}"), ("POST", "/{}/predict"), ("GET", "/{}/ping"),
     ("M{}", "/ping"), ("M{}", "/digits/predict"), ("GET", "/?q={}")],
)  # fmt: skip
def test_300_made_up_requests_add_no_series(client, method, path):
    client.open(path.format("first"), method=method.format("first"))
    before = len(client.get("/metrics").text.splitlines())
    client.get("/metrics")
    before = len(client.get("/metrics").text.splitlines())

    for number in range(300):
        client.open(path.format(number), method=method.format(number))

    assert len(client.get("/metrics").text.splitlines()) == before


@pytest.fixture
def shared_values():
    """Let apps of this process stand for front-ends that count together."""
    before, counters = values.ValueClass, Counters(create_memory())
    yield counters
    values.ValueClass = before
    os.close(counters.descriptor)


def front_end(counters):
    """Return the client of the next front-end."""
    server = FakeServer()
    server.counters, server.share = counters, counters.share(counters.give())
    return server.client()


def test_several_front_ends_count_together_and_none_takes_its_counts_along(shared_values):
    for _ in range(2):
        client = front_end(shared_values)
        client.get("/ping/live")
    found = [
        samples(client, f"flask_http_request_{name}")
        for name in ("total", "duration_seconds_count")
    ]
    shared_values.merge(1)
    after = [
        samples(client, f"flask_http_request_{name}")
        for name in ("total", "duration_seconds_count")
    ]

    labels = {"listener": "public", "method": "GET", "status": "200"}
    assert (labels, 2.0) in found[0]
    assert (labels | {"rule": "/ping/live"}, 2.0) in found[1]
    for before, later in zip(found, after, strict=True):
        assert all(value <= dict(map(_keyed, later))[key] for key, value in map(_keyed, before))


def test_buckets_of_several_front_ends_are_added_up(shared_values):
    for _ in range(3):
        client = front_end(shared_values)
        client.get("/ping/live")
    found = samples(client, "flask_http_request_duration_seconds_bucket")
    counts = [value for labels, value in found if labels["rule"] == "/ping/live"]

    assert counts == sorted(counts)
    assert counts[-1] == 3.0


def _keyed(sample):
    labels, value = sample
    return tuple(labels.items()), value

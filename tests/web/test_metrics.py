# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` holds both worlds, and no client can make it grow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

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

    assert ({"method": "GET", "rule": "/<model>/ping", "status": "200"}, 2.0) in counted


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
     ("GET", "/docs/{}"), ("M{}", "/ping"), ("M{}", "/digits/predict"), ("GET", "/?q={}")],
)  # fmt: skip
def test_300_made_up_requests_add_no_series(client, method, path):
    client.open(path.format("first"), method=method.format("first"))
    before = len(client.get("/metrics").text.splitlines())
    client.get("/metrics")
    before = len(client.get("/metrics").text.splitlines())

    for number in range(300):
        client.open(path.format(number), method=method.format(number))

    assert len(client.get("/metrics").text.splitlines()) == before


def test_each_app_counts_for_itself():
    first, second = FakeServer().client(), FakeServer().client()
    first.get("/ping/live")

    assert len(samples(first, "flask_http_request_total")) == 1
    assert samples(second, "flask_http_request_total") == []


ONE_FRONT_END = """
from tests.web.fakes import FakeServer
client = FakeServer().client()
client.get("/ping/live")
print(client.get("/metrics").text)
"""


def test_several_front_ends_count_together(tmp_path):
    shared = tmp_path / "prometheus"
    shared.mkdir()
    (shared / "histogram_1.db").touch()  # of a third, which is just starting
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(shared)}
    run = [sys.executable, "-c", ONE_FRONT_END]
    root = Path(__file__).parents[2]
    for _ in range(2):
        last = subprocess.run(
            run, env=environment, cwd=root, capture_output=True, text=True, check=True, timeout=60
        )

    counted = [line for line in last.stdout.splitlines() if 'rule="/ping/live"' in line]

    assert [line.split()[-1] for line in counted if "seconds_count" in line] == ["2.0"]

# SPDX-License-Identifier: Apache-2.0
"""``docs/metrics.md`` lists the series of ``/metrics``: all of them, and no others."""

import ast
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from flask import Flask
from prometheus_client.core import Metric

from servekit.frontend.metrics.counters import ModelMetrics
from servekit.frontend.metrics.families import collect
from servekit.frontend.metrics.replicas import RESULTS, supervised
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.model_counters import CACHED, DROPS, LEFT, MIRRORED, Label
from servekit.ipc.operations import KINDS
from servekit.ipc.table import STATES, ModelRow, ReplicaRow, Table
from servekit.ipc.tally import CAUSES, RELOADS
from servekit.web import RouteMetrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<type>counter|gauge|histogram) \| (?P<labels>.*?) ?\|"
    r" (?P<meaning>[^|]+) \| (?P<action>[^|]+) \|$",
    re.MULTILINE,
)
ROWS = {row["name"]: row for row in ROW.finditer(PAGE)}
SOURCES = [*ROOT.glob("servekit/**/*.py"), *ROOT.glob("plugins/*/servekit_*/**/*.py")]
FAMILY = re.compile(r"(Counter|Gauge|Histogram)MetricFamily$")


def of_the_front_end():
    """Return the families of a server that has stages and streams."""
    counters = Counters(create_memory())
    share = counters.share(counters.give())
    labels = [Label(name, "1") for name in ("a", "a:stage")]
    for label in labels:
        counted = ModelMetrics(share, label)
        counted.count_stream(+1)
        counted.count_mirrored("equal")
    replica = ReplicaRow(0, 1, "/run/a", "serving", pid=os.getpid())
    table = Table([ModelRow("a", "1", "", [replica], 1, 0.0, 1.0, 1, may_sleep=True)])
    families = [*collect(counters, labels), *supervised(table)]
    os.close(counters.descriptor)
    return families


def of_the_flask_app():
    """Return the families of the Flask routes."""
    routing = SimpleNamespace(collect=tuple)
    counters = Counters(create_memory())
    share = counters.share(counters.give())
    server = SimpleNamespace(share=share, counters=counters, routing=routing, collectors=())
    metrics, app = RouteMetrics(server), Flask("app")
    metrics.measure(app, "public")
    app.add_url_rule("/", "view", lambda: "")
    app.add_url_rule("/fails", "fails", lambda: 1 / 0)
    app.test_client().get("/")
    app.test_client().get("/fails")
    families = list(metrics.collect())
    os.close(counters.descriptor)
    return families


def named_in_sources():
    """Yield name and type of each family that a source names in full."""
    sources = [path.read_text(encoding="utf-8") for path in SOURCES]
    for source in sources:
        for node in ast.walk(ast.parse(source if "MetricFamily" in source else "")):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            kind = FAMILY.match(node.func.id if isinstance(node.func, ast.Name) else "")
            name = node.args[0]
            if kind and isinstance(name, ast.Constant):
                yield series(name.value, kind[1].lower()), kind[1].lower()


def series(name, kind):
    return f"{name}_total" if kind == "counter" else name


COLLECTED: list[Metric] = [*of_the_front_end(), *of_the_flask_app()]
IN_CODE = {series(family.name, family.type): family.type for family in COLLECTED}
IN_CODE |= dict(named_in_sources())


def test_the_page_lists_the_series_of_the_code():
    assert sorted(ROWS) == sorted(IN_CODE)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_type_and_the_unit_are_right(name):
    assert ROWS[name]["type"] == IN_CODE[name]
    assert ("duration" in name) == ("duration_seconds" in name)


@pytest.mark.parametrize("family", COLLECTED, ids=lambda family: family.name)
def test_the_labels_are_right(family):
    row = ROWS[series(family.name, family.type)]
    values = re.findall(r"`(\w+)`: ", row["labels"])
    names = set(re.findall(r"`(\w+)`", re.sub(r": (`\w+`(, )?)+", ", ", row["labels"])))
    labels = set().union(*(sample.labels for sample in family.samples)) - {"le"}

    assert labels == names | set(values)


WORDS = [*STATES, *CAUSES, *RELOADS, *DROPS, *LEFT, *CACHED, *MIRRORED, *KINDS, *RESULTS]


@pytest.mark.parametrize("word", dict.fromkeys(WORDS))
def test_every_value_of_a_label_is_documented(word):
    assert f"`{word}`" in PAGE

# SPDX-License-Identifier: Apache-2.0
"""The series of ``/metrics``: those of the supervisor, and that all of them are documented."""

import os
import re
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily

from servekit.frontend.metrics.counters import CACHED, DROPS, ModelMetrics, collect
from servekit.frontend.metrics.replicas import supervised
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.table import CAUSES, RELOADS, STATES, ModelRow, ReplicaRow, Table, Tally
from servekit.supervisor.replicas.lifecycle import State

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
OF_OTHERS = {
    "servekit_jobs",
    "servekit_jobs_bytes",
    "flask_http_request_total",
    "flask_http_request_duration_seconds",
}


def row(name, *states):
    replicas = [ReplicaRow(i, 1, "/run/a", state) for i, state in enumerate(states)]
    return ModelRow(name, "1", "", replicas, 1, 0.0, 1.0, 1)


def values(table):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in supervised(table)
        for sample in family.samples
    }


def test_states_of_replicas_and_what_happened_to_them():
    tally = Tally()
    tally.restarted("a")
    for cause in ("killed", "killed", "signal"):
        tally.crashed("a", cause)
    tally.reloaded("failed")
    found = values(Table([row("a", "serving", "serving", "backoff"), row("b")], tally=tally))

    assert {key: value for key, value in found.items() if value} == {
        ("servekit_replicas", "a", "serving"): 2,
        ("servekit_replicas", "a", "backoff"): 1,
        ("servekit_restarts_total", "a"): 1,
        ("servekit_crashes_total", "a", "killed"): 2,
        ("servekit_crashes_total", "a", "signal"): 1,
        ("servekit_reloads_total", "failed"): 1,
    }
    assert len(found) == 2 * (len(STATES) + 1 + len(CAUSES)) + len(RELOADS)


def test_the_states_are_those_of_the_supervisor():
    assert set(STATES) == {state.name.lower() for state in State}


@pytest.fixture
def series():
    """The families of a server that has all there is."""
    counters = Counters(create_memory())
    share = counters.share(counters.give())
    for label in ("a", "a:stage"):
        ModelMetrics(share, label).count_stream(+1)
    yield [*collect(counters), *supervised(Table([row("a")]))]
    os.close(counters.descriptor)


def named(family):
    return f"{family.name}_total" if isinstance(family, CounterMetricFamily) else family.name


def documented():
    section = PAGE.read_text(encoding="utf-8").partition("## Metrics")[2].partition("\n## ")[0]
    return section, set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_series_is_documented_and_there(series):
    assert documented()[1] == {named(family) for family in series} | OF_OTHERS


@pytest.mark.parametrize("word", [*STATES, *CAUSES, *RELOADS, *DROPS, *CACHED])
def test_every_word_of_a_label_is_documented(word):
    assert f"`{word}`" in documented()[0]


def test_labels_are_documented(series):
    lines = documented()[0].splitlines()
    for family in series:
        (line,) = [line for line in lines if line.startswith(f"| `{named(family)}` |")]
        labels = set(
            line.split("|")[2].replace("`", " ").replace(",", " ").replace(":", " ").split()
        )

        assert set().union(*(sample.labels for sample in family.samples)) - {"le"} <= labels

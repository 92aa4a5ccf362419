# SPDX-License-Identifier: Apache-2.0
"""What the overview says of a model."""

import pytest
from servekit_console.overview import summary_of
from servekit_console.samples import Rates

SERVING = {"index": 0, "state": "serving", "reason": "", "pid": 7, "restarts": 0, "memory_bytes": 5}
STARTING = {**SERVING, "index": 1, "state": "starting", "pid": None, "memory_bytes": None}
FAILED = {**STARTING, "state": "failed", "reason": "no weights", "restarts": 3}
TRAFFIC = {"weights": {}, "aliases": {}}


def state(*replicas, **more):
    return {
        "name": "digits", "version": "1.0", "description": "", "is_ready": True, "is_asleep": False,
        "reason": "", "capacity": 9, "replicas": list(replicas), "versions": [], "traffic": TRAFFIC,
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(state(SERVING), "ready", id="all replicas serve"),
        pytest.param(state(SERVING, FAILED), "degraded", id="some do"),
        pytest.param(state(STARTING, is_ready=False), "loading", id="none does yet"),
        pytest.param(state(FAILED, is_ready=False), "down", id="none does"),
        pytest.param(state(is_ready=False, reason="no such file"), "down", id="it cannot load"),
        pytest.param(state(is_ready=False, reason="loading"), "loading", id="it is unpacked"),
        pytest.param(state(is_ready=False, is_asleep=True), "asleep", id="it sleeps"),
    ],
)
def test_states(given, expected):
    assert summary_of(given, {}).state == expected


def test_the_reason_of_a_replica_is_that_of_its_model():
    summary = summary_of(state(SERVING, FAILED), {})

    assert (summary.reason, summary.restarts, summary.serving) == ("no weights", 3, 1)


def test_versions_share_the_traffic_and_add_up():
    other = {"version": "1.1", "replicas": [SERVING]}
    traffic = {"weights": {"1.0": 3, "1.1": 1}, "aliases": {"canary": "1.1"}}
    rates = {
        "digits/1.0": Rates(requests_per_s=30.0, p99_s=0.2),
        "digits/1.1": Rates(requests_per_s=10.0, p99_s=0.9),
    }
    summary = summary_of(state(SERVING, versions=[other], traffic=traffic), rates)

    assert [(each.version, each.share) for each in summary.versions] == [
        ("1.0", 0.75),
        ("1.1", 0.25),
    ]
    assert summary.versions[1].aliases == ["canary"]
    assert (summary.rates.requests_per_s, summary.rates.p99_s) == (40.0, 0.9)
    assert (summary.memory_bytes, len(summary.replicas)) == (10, 2)

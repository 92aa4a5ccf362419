# SPDX-License-Identifier: Apache-2.0
"""The figures of ``servekit top``: what two looks at a server make of its counters."""

import pytest

from servekit.cli.server.rates import Observation, _counts, _quantile, rates

PAGE = """\
# TYPE servekit_requests_total counter
servekit_requests_total{model="digits",status="200",version="1.0"} %d
servekit_requests_total{model="digits",status="429",version="1.0"} 1.0
servekit_requests_total{model="digits",status="503",version="1.0"} %d
# TYPE servekit_request_duration_seconds histogram
servekit_request_duration_seconds_bucket{le="0.001",model="digits",version="1.0"} 0.0
servekit_request_duration_seconds_bucket{le="0.01",model="digits",version="1.0"} %d
servekit_request_duration_seconds_bucket{le="+Inf",model="digits",version="1.0"} %d
# TYPE servekit_tasks_waiting gauge
servekit_tasks_waiting{model="digits",version="1.0"} 2.0
# TYPE servekit_stage_tasks_waiting gauge
servekit_stage_tasks_waiting{model="digits",stage="decode",version="1.0"} 3.0
# TYPE servekit_worker_restarts_total counter
servekit_worker_restarts_total{model="digits"} 7.0
"""


def seen(time, ok, failed, cpu_s, pid=7, **more):
    replicas = [
        {"pid": pid, "state": "serving", "cpu_s": cpu_s, "memory_bytes": 5 << 20},
        {"pid": None, "state": "backoff", "cpu_s": None, "memory_bytes": None},
    ]
    model = {"name": "digits", "version": "1.0", "replicas": replicas, "versions": [], **more}
    return Observation(time, [model], _counts(PAGE % (ok, failed, ok, ok)))


def test_rates_between_two_looks():
    (digits,) = rates(seen(10.0, 100, 0, cpu_s=1.0), seen(12.0, 300, 20, cpu_s=2.0))

    assert (digits.model, digits.version) == ("digits", "1.0")
    assert (digits.serving, digits.replicas) == (1, 2)
    assert (digits.requests_per_s, digits.errors_per_s) == (110.0, 10.0)
    assert digits.p50_s == pytest.approx(0.0055)
    assert digits.p99_s == pytest.approx(0.00991)
    assert (digits.waiting, digits.cpu, digits.memory_bytes) == (5, 0.5, 5 << 20)


def test_a_worker_that_is_new_and_a_version_that_is_new_have_no_past():
    other = {"version": "2.0", "replicas": []}
    one, two = rates(
        seen(10.0, 100, 0, cpu_s=1.0), seen(12.0, 100, 0, cpu_s=9.0, pid=8, versions=[other])
    )

    assert (one.cpu, one.requests_per_s, one.p50_s) == (0.0, 0.0, None)
    assert (two.version, two.requests_per_s, two.replicas) == ("2.0", 0.0, 0)


@pytest.mark.parametrize(
    ("latencies", "share", "expected"),
    [
        ({}, 0.5, None),
        ({0.1: 0, float("inf"): 0}, 0.5, None),
        ({0.1: 10, float("inf"): 10}, 0.5, 0.05),
        ({0.1: 10, 0.2: 20, float("inf"): 20}, 0.75, 0.15),
        ({0.1: 0, float("inf"): 5}, 0.99, 0.1),
    ],
)
def test_quantiles_lie_between_bounds(latencies, share, expected):
    assert _quantile(latencies, share) == pytest.approx(expected)

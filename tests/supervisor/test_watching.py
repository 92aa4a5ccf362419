# SPDX-License-Identifier: Apache-2.0
"""When a new version is worse than its operator allows."""

import pytest

from servekit.ipc.model_counters import DURATIONS, VersionCounts
from servekit.ipc.operations import Swap
from servekit.supervisor.operations.watching import Sample, quantile_s


def counts(fast=0, slow=0, **statuses):
    """Return counts with responses of 1 ms and of 1 s."""
    durations = [0] * (len(DURATIONS) + 1)
    durations[DURATIONS.index(0.001)], durations[DURATIONS.index(1.0)] = fast, slow
    return VersionCounts({int(key[1:]): n for key, n in statuses.items()}, durations, 0, 0)


@pytest.mark.parametrize(
    ("before", "now", "problem"),
    [
        pytest.param({}, {}, "", id="nothing was answered"),
        pytest.param({}, {"_200": 100, "_500": 5}, "", id="few errors"),
        pytest.param({}, {"_200": 80, "_503": 20}, "20 % of 100 responses", id="many errors"),
        pytest.param({}, {"_500": 2}, "", id="two errors may be an accident"),
        pytest.param({}, {"_200": 80, "_422": 20}, "", id="errors of clients"),
        pytest.param(
            {"_200": 100, "_500": 50}, {"_200": 200, "_500": 50}, "", id="errors of before"
        ),
        pytest.param({}, {"fast": 100, "slow": 10}, "99 % of the responses", id="slow"),
        pytest.param({}, {"fast": 1000, "slow": 1}, "", id="one slow response"),
        pytest.param({}, {"slow": 10}, "", id="too few to tell"),
        pytest.param({"slow": 100}, {"slow": 100, "fast": 100}, "", id="slow before"),
    ],
)
def test_bounds(before, now, problem):
    order = Swap(model="digits", max_error_rate=0.05, max_latency_s=0.5)
    earlier, later = Sample.of(0.0, counts(**before)), Sample.of(1.0, counts(**now))

    found = later.problem(earlier, order)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_without_a_bound_latency_does_not_matter():
    earlier, later = Sample.of(0.0, counts()), Sample.of(1.0, counts(slow=100))

    assert later.problem(earlier, Swap(model="digits")) == ""


@pytest.mark.parametrize(
    ("filled", "share", "expected"),
    [
        pytest.param({0: 10}, 0.5, 0.00005, id="in the middle of the first bucket"),
        pytest.param({0: 10, 1: 10}, 0.5, 0.0001, id="at a bound"),
        pytest.param({0: 1, len(DURATIONS): 1}, 0.99, float("inf"), id="longer than all bounds"),
    ],
)
def test_quantiles(filled, share, expected):
    durations = [filled.get(place, 0) for place in range(len(DURATIONS) + 1)]

    assert quantile_s(durations, share) == pytest.approx(expected)

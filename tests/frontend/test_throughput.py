# SPDX-License-Identifier: Apache-2.0
"""What Retry-After says, from the rate at which answers were seen."""

import pytest

from servekit.frontend.batching.throughput import Throughput, whole_seconds


def rate_of(*samples, now):
    """Return the rate of a model that worked all the time."""
    rate = Throughput()
    for moment, answered in samples:
        rate.sample(moment, answered, is_idle=False)
    return lambda tasks: rate.seconds_for(tasks, now)


@pytest.mark.parametrize(
    ("samples", "now", "tasks", "seconds"),
    [
        pytest.param([], 0.0, 1000, 1, id="nothing is known: 1"),
        pytest.param([(0, 0), (0.5, 1)], 0.5, 1000, 1, id="known for too short a time: 1"),
        pytest.param([(0, 0), (1, 80), (2, 160)], 2.0, 1024, 13, id="1024 at 80 per s, rounded up"),
        pytest.param([(0, 0), (2, 1600)], 2.0, 10, 1, id="never below 1"),
        pytest.param([(0, 0), (2, 2)], 2.0, 1000, 60, id="never above 60"),
        pytest.param([(0, 0)], 7.2, 1000, 8, id="nothing answered yet: as long again as so far"),
        pytest.param(
            [(0, 0), *((i, 10 * i) for i in range(1, 10)), *((i, 100 * i) for i in range(10, 20))],
            *(19.0, 1000, 10),
            id="only the last seconds count",
        ),
        pytest.param(
            [(0, 0), (20, 10), (40, 20)], 50.0, 10, 30, id="a slow model's window is longer"
        ),
    ],
)
def test_the_wait_is_what_the_queue_will_take(samples, now, tasks, seconds):
    assert rate_of(*samples, now=now)(tasks) == seconds


def test_a_rest_is_not_slowness():
    rate = Throughput()
    rate.sample(0, 0, is_idle=True)
    rate.sample(1000, 0, is_idle=True)
    rate.sample(1001, 100, is_idle=False)
    rate.sample(1002, 200, is_idle=False)

    assert rate.seconds_for(500, 1002) == 5


@pytest.mark.parametrize(("seconds", "whole"), [(-1, 1), (0, 1), (1.0, 1), (1.2, 2), (1e9, 60)])
def test_whole_seconds(seconds, whole):
    assert whole_seconds(seconds) == whole

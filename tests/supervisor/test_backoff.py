# SPDX-License-Identifier: Apache-2.0
"""How long a dead worker's place stays empty."""

import pytest

from servekit.supervisor.os.backoff import KILL_WAIT_S, PROBE_S, Backoff, Wait

NEVER = None  # never got ready


@pytest.fixture
def backoff():
    return Backoff(jitter=lambda: 0.0)


@pytest.mark.parametrize(
    ("exits", "delays"),
    [
        pytest.param([(0, 5)], [0], id="first crash of a worker that served restarts at once"),
        pytest.param([(0, 5), (6, 5), (12, 5), (18, 5)], [0, 0.5, 1, 2], id="then it doubles"),
        pytest.param([(0, NEVER)], [0.5], id="boot failure never restarts at once"),
        pytest.param([(0, NEVER), (1, NEVER), (3, NEVER)], [0.5, 1, 2], id="boot failures double"),
        pytest.param([(0, 5), (70, 61)], [0, 0], id="sixty seconds of service clear the record"),
        pytest.param([(0, 5), (61, 5)], [0, 0], id="failures older than the window do not count"),
    ],
)
def test_delays(backoff, exits, delays):
    assert [backoff.failed(now, served).delay_s for now, served in exits] == delays


def fail_often(backoff, times=5):
    return [backoff.failed(float(now), NEVER) for now in range(times)]


def test_fifth_failure_within_a_minute_gives_up(backoff):
    waits = fail_often(backoff)

    assert [wait.has_given_up for wait in waits] == [False] * 4 + [True]


def test_given_up_means_one_probe_a_minute(backoff):
    fail_often(backoff)

    assert [backoff.failed(at, NEVER) for at in (64.0, 125.0)] == [Wait(PROBE_S, True)] * 2


def test_probe_that_serves_a_minute_clears_the_record(backoff):
    fail_often(backoff)

    assert backoff.failed(200.0, served_s=61.0) == Wait(0.0)


def test_crash_loop_costs_few_processes(backoff):
    now, spawns = 0.0, 0
    while now < 120:
        spawns += 1
        now += backoff.failed(now, NEVER).delay_s

    assert spawns <= 12


def test_wait_is_a_little_random():
    slow = Backoff(jitter=lambda: 1.0)

    assert slow.failed(0.0, NEVER).delay_s == pytest.approx(0.55)


def test_kills_never_lead_to_giving_up(backoff):
    waits = [backoff.killed(float(now)) for now in range(100)]

    assert waits == [Wait(0.0)] + [Wait(KILL_WAIT_S)] * 99


def test_rare_kill_restarts_at_once(backoff):
    assert [backoff.killed(now) for now in (0.0, 10.0)] == [Wait(0.0)] * 2


def test_kills_while_booting_wait_ever_longer_and_never_give_up(backoff):
    waits = [backoff.killed(float(now), has_served=False) for now in range(8)]
    after = backoff.killed(8.0), backoff.killed(9.0, has_served=False)

    assert [wait.delay_s for wait in waits] == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert after == (Wait(KILL_WAIT_S), Wait(KILL_WAIT_S))

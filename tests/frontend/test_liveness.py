# SPDX-License-Identifier: Apache-2.0
"""When a worker is well, when it is asked for a sign of life, and when it hangs."""

import pytest

from servekit.frontend.batching.liveness import Liveness, overtime, time_limits

LIMITS = time_limits(2.0, 3)  # two other front-ends may have a batch in the worker first


def test_a_worker_may_first_have_to_finish_the_batches_of_the_other_front_ends():
    assert LIMITS == (2.0, 6.0, 14.0, 16.0)


@pytest.mark.parametrize(
    ("now", "is_working", "changes", "is_well"),
    [
        pytest.param(13.9, False, {}, True, id="idle, and heard of"),
        pytest.param(14.1, False, {}, False, id="idle, and silent for too long"),
        pytest.param(14.1, True, {}, True, id="silent, but it has tasks"),
        pytest.param(1.0, False, {"failure": "RuntimeError"}, False, id="its ping failed"),
        pytest.param(1.0, False, {"is_given_up": True}, False, id="the supervisor was told"),
    ],
)
def test_is_well(now, is_working, changes, is_well):
    life = Liveness(0.0)
    for name, value in changes.items():
        setattr(life, name, value)

    assert life.is_well(now, LIMITS, is_working=is_working) is is_well


def test_an_idle_worker_is_pinged_once_for_each_silence():
    life = Liveness(0.0)
    assert [life.is_ping_due(now) for now in (1.9, 2.1)] == [False, True]
    life.pinged_at = 2.1

    assert [life.is_ping_due(now) for now in (4.0, 4.2)] == [False, True]


def test_what_is_reported_of_a_worker_that_hangs():
    life = Liveness(0.0)

    assert (life.silence(14.0, 14.0), life.silence(14.1, 14.0)) == ("", "did not answer for 14 s")
    assert (life.absence(1.0), life.absence(1.1)) == ("", "closed its channel")


@pytest.mark.parametrize(
    ("what", "elapsed_s", "limit_s", "reason"),
    [
        ("predict", 6.0, LIMITS.batch_s, ""),
        ("predict", 6.1, LIMITS.batch_s, "predict took longer than 2 s"),
        ("a step", 2.0, LIMITS.step_s, ""),
        ("a step", 2.1, LIMITS.step_s, "a step took longer than 2 s"),
    ],
)
def test_overtime(what, elapsed_s, limit_s, reason):
    assert overtime(what, elapsed_s, limit_s, LIMITS) == reason

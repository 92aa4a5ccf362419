# SPDX-License-Identifier: Apache-2.0
"""Whether two targets differ."""

import random

import pytest
from servekit_bench.report.figures import TargetFigures
from servekit_bench.report.verdict import compare, interval

from .measurements import BUSY, measured


def target(name, *latencies_ms, **more):
    rounds = [measured([each] * 10, **more) for each in latencies_ms]
    return TargetFigures.of(name, "http://x/y", 1, rounds)


def verdicts(first, second, *, is_open=False):
    found = compare(first, second, is_open=is_open)
    return {each.figure: each.verdict for each in found.differences}


def test_a_difference_beyond_the_spread_of_the_rounds_is_named():
    found = compare(target("a", 10, 11, 10, 12), target("b", 20, 22, 20.2, 24), is_open=False)

    p99 = found.differences[-1]
    assert (p99.figure, p99.verdict) == ("p99", "higher")
    assert p99.change == pytest.approx(1.0, abs=0.02)
    assert p99.low < 1 < p99.high
    assert found.lines[0] == "b against a:"
    assert "p99: 100.0% higher (between" in "\n".join(found.lines)


def test_a_difference_within_the_spread_is_not_one():
    found = verdicts(target("a", 10, 12, 9, 11, 10), target("b", 11, 10, 10, 12, 10))

    assert found["p99"] == "no difference seen"


def test_drift_that_meets_both_targets_is_no_difference_between_them():
    """The machine becomes three times slower, and b stays 10 % slower than a in each round."""
    found = verdicts(target("a", 10, 20, 30, 15), target("b", 11, 22.1, 33, 16.4))

    assert found["p99"] == "higher"


def test_less_than_three_rounds_tell_nothing():
    assert set(verdicts(target("a", 10, 10), target("b", 20, 20)).values()) == {"too few rounds"}


def test_a_round_without_answers_tells_nothing():
    found = compare(target("a", 1, 1, 1), target("b", 1, 1, 1, answered=0), is_open=False)

    assert found.differences[0].verdict == "too few rounds"


def test_the_rate_of_an_open_loop_is_not_compared():
    three = target("a", 1, 1, 1)

    assert list(verdicts(three, three, is_open=True)) == ["p50", "p99"]


def test_failures_are_mentioned():
    found = compare(target("a", 1, 1, 1), target("b", 1, 1, 1, failures=(BUSY,)), is_open=False)

    assert found.caution.startswith("failed requests: 23.1% against 0.0%")


def test_the_interval_covers_the_truth_as_often_as_it_says():
    chance = random.Random(1)
    rounds = [[chance.lognormvariate(0, 0.1) for _ in range(5)] for _ in range(2000)]

    missed = sum(not low <= 0 <= high for low, high in map(interval, rounds))

    assert missed / 2000 == pytest.approx(0.01, abs=0.006)

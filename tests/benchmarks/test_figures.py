# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.benchmarks.figures import (
    Comparison,
    Sample,
    Spread,
    comparable,
    levels,
    of_case,
    ratio,
    spread,
)
from tests.benchmarks.wrk import Load

BETTER = Comparison("a / the better of b and c", "a", ("b", "c"))


def samples_of(rates, connections=8, case="sum-json-16"):
    """Return one sample per server and round, from requests/s by server."""
    load = {"requests": 1000, "p50_ms": 1.0, "p99_ms": 2.0, "status_errors": 0, "socket_errors": 0}
    return [
        Sample.of(server, case, connections, Load(requests_per_s=rate, **load), 0.25).in_round(
            number
        )
        for server, row in rates.items()
        for number, rate in enumerate(row, start=1)
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([3.0, 1.0, 2.0], Spread(2.0, 1.0, 3.0), id="odd: the middle one"),
        pytest.param([4.0, 1.0, 2.0, 3.0], Spread(2.5, 1.0, 4.0), id="even: between the two"),
        pytest.param([5.0], Spread(5.0, 5.0, 5.0), id="one round"),
    ],
)
def test_a_spread_is_median_lowest_highest(values, expected):
    assert Spread.of(values) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param(
            {"a": [20.0, 30.0, 80.0], "b": [10.0, 10.0, 20.0], "c": [1.0, 1.0, 1.0]},
            Spread(3.0, 2.0, 4.0),
            id="each round against itself, then the median",
        ),
        pytest.param(
            {"a": [60.0, 60.0, 60.0], "b": [10.0, 10.0, 99.0], "c": [20.0, 20.0, 20.0]},
            Spread(3.0, 3.0, 3.0),
            id="the better is the one with the better median, in every round",
        ),
        pytest.param(
            {"a": [5.0], "b": [0.0], "c": [0.0]}, None, id="no ratio to a server that answers none"
        ),
        pytest.param(
            {"a": [0.0], "b": [5.0], "c": [1.0]}, Spread(0.0, 0.0, 0.0), id="zero of something"
        ),
    ],
)
def test_a_ratio_is_taken_within_a_round_against_the_better(rates, expected):
    assert ratio(samples_of(rates), BETTER, 8) == expected


def test_a_ratio_looks_at_one_number_of_connections():
    one = samples_of({"a": [10.0], "b": [10.0], "c": [1.0]}, connections=1)
    many = samples_of({"a": [70.0], "b": [10.0], "c": [1.0]}, connections=32)

    assert levels(many + one) == [1, 32]
    assert ratio(many + one, BETTER, 32) == Spread(7.0, 7.0, 7.0)


def test_only_comparisons_whose_servers_were_measured_are_shown():
    samples = samples_of({"servekit": [1.0], "mosec-32": [1.0], "nginx": [1.0]})

    assert [c.against for c in comparable(samples)] == [("mosec-32",), ("nginx",)]


def test_cpu_is_counted_per_thousand_requests():
    samples = samples_of({"a": [1.0, 2.0]})

    assert spread(samples, "a", 8, lambda s: s.cpu_s_per_1000) == Spread(0.25, 0.25, 0.25)


def test_figures_of_two_cases_are_kept_apart():
    small = samples_of({"a": [1.0]})
    large = samples_of({"a": [9.0]}, case="tensors-raw-602112")

    assert of_case(small + large, "tensors-raw-602112") == large

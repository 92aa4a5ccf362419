# SPDX-License-Identifier: Apache-2.0
"""The search for the load that a target can take, with targets that are formulas."""

import pytest
from servekit_bench.load import ClosedLoop, LoadFailure, Target, TimedRequest
from servekit_bench.report.limits import limit_warnings, saturation_lines, step_rows
from servekit_bench.saturation import find_saturation
from servekit_bench.targets import OpenTarget

from .measurements import measured

TARGET = OpenTarget("digits", Target("localhost", 1, (TimedRequest("/digits/predict"),)))


class Formula:
    """A server that answers *capacity* requests/s, each in at least *least_ms*."""

    def __init__(self, capacity, least_ms, *, refuses_above=None, steps=1000):
        self.capacity, self.least_ms = capacity, least_ms
        self.refuses_above, self.steps = refuses_above, steps
        self.loads, self.whats = [], []

    def measure(self, target, load, what):
        self.loads.append(load)
        self.whats.append(what)
        if isinstance(load, ClosedLoop):
            rate = min(self.capacity, load.connections * 1000 / self.least_ms)
            return self._seen(rate, 1000 * load.connections / rate, load.connections)
        if load.rate >= self.capacity:
            return self._seen(self.capacity, 5000, 512, late=load.rate - self.capacity)
        return self._seen(load.rate, self.least_ms / (1 - load.rate / self.capacity), 10)

    def _seen(self, rate, latency_ms, connections, late=0.0):
        failures = ()
        if self.refuses_above and connections > self.refuses_above:
            failures = (LoadFailure("503", int(rate), "full"),)
        latencies = [latency_ms] * int(rate)
        is_last = len(self.loads) >= self.steps
        return measured(latencies, unanswered=int(late), failures=failures, was_stopped=is_last)

    is_over = False


def search(server, p99_s=None):
    return find_saturation(TARGET, server, p99_s=p99_s, arrivals="poisson")


def test_connections_rise_until_the_throughput_does_not():
    server = Formula(capacity=1000, least_ms=10)

    found, is_over = search(server)

    assert not is_over
    assert found.capacity.requests_per_s == 1000
    assert [each.connections for each in server.loads if isinstance(each, ClosedLoop)] == [
        *(1, 2, 4, 8, 16, 32, 64),
    ]


def test_the_highest_rate_that_is_kept_is_near_the_capacity():
    found, _ = search(Formula(capacity=1000, least_ms=10))

    assert 900 <= found.highest.rate <= 1020


def test_the_highest_rate_keeps_the_bound():
    """A latency of 10 ms / (1 - load) is within 20 ms up to half of the capacity."""
    found, _ = search(Formula(capacity=1000, least_ms=10), p99_s=0.0201)

    assert found.highest.rate == pytest.approx(500, abs=60)
    assert found.highest.p99_ms <= 20.1
    assert "it keeps up with" in saturation_lines(found)[1]
    assert "within 20.1 ms" in saturation_lines(found)[1]


def test_a_bound_that_no_rate_keeps():
    found, _ = search(Formula(capacity=1000, least_ms=10), p99_s=0.001)

    assert found.highest is None
    assert saturation_lines(found)[1] == "none of the rates was kept within 1 ms"


def test_a_server_that_refuses_ends_the_rise():
    server = Formula(capacity=1000, least_ms=10, refuses_above=4)

    found, _ = search(server)

    assert found.capacity.connections == 4
    assert max(each.connections for each in server.loads if isinstance(each, ClosedLoop)) == 8


def test_a_search_that_is_ended_has_what_it_found():
    found, is_over = search(Formula(capacity=1000, least_ms=10, steps=4))

    assert is_over
    assert len(found.steps) == 3
    assert found.capacity.connections == 4
    assert found.highest is None


def test_a_search_that_is_ended_at_once_has_nothing():
    found, _ = search(Formula(capacity=1000, least_ms=10, steps=1))

    assert saturation_lines(found) == ["digits: the search ended before it found anything"]


def test_high_rates_are_shown_without_exponents():
    server = Formula(capacity=20_000, least_ms=1)

    found, _ = search(server)

    _, rows = step_rows(found)
    assert "14,000 requests/s" in [row[0] for row in rows]
    assert "saturation: 14,000 requests/s" in server.whats


def test_the_steps_are_rows():
    found, _ = search(Formula(capacity=1000, least_ms=10))

    _, rows = step_rows(found)

    assert rows[0][:2] == ["1 connection", "100"]
    assert limit_warnings(found) == []

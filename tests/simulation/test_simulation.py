# SPDX-License-Identifier: Apache-2.0
"""The simulation agrees with what is known of queues, with servekit-client, and with itself."""

from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from servekit_client import ConnectionRefused, DeadlineExceeded, QueueFull, Unavailable, Unreachable
from servekit_client.attempts import OTHERS
from servekit_client.servers import Servers

from tests.simulation.balancing import POLICIES, latencies, percentile
from tests.simulation.clients import Call, SparseClient
from tests.simulation.fleet import Costs
from tests.simulation.growing import Scaler, grow
from tests.simulation.losing import LOST_AT_S, lose_nodes
from tests.simulation.measure import line
from tests.simulation.page import introduction
from tests.simulation.rolling import roll

pytestmark = pytest.mark.slow

COSTS = Costs(
    batch_s=0.004, input_s=0.0005, network_s=0.0005, refused_s=0.0005, start_s=1.0, queue=1024
)
ERRORS = {0: ConnectionRefused, -1: Unreachable, 429: QueueFull, 503: Unavailable}
SINGLE = Costs(batch_s=0.0, input_s=0.001, max_batch=1, queue=10**9, network_s=0.0)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_one_node_without_batches_is_the_queue_of_the_textbook(load):
    """M/D/1: the mean wait is load / (2 (1 - load)) service times (Pollaczek and Khinchine)."""
    found = latencies("random", nodes=1, clients=1, load=load, requests=60_000, costs=SINGLE)
    expected = 0.001 * (1 + load / (2 * (1 - load)))

    assert sum(found) / len(found) == pytest.approx(expected, rel=0.05)


def test_the_same_seed_gives_the_same_times():
    first, again, other = (
        latencies("random", nodes=3, clients=2, load=0.5, requests=500, costs=COSTS, seed=seed)
        for seed in (1, 1, 2)
    )

    assert first == again != other


def test_the_part_of_a_run_that_counts_is_in_its_steady_state():
    """A run of four times the length has the same p99."""
    short, long = (
        percentile(
            latencies("random", nodes=100, clients=4, load=0.8, requests=count, costs=COSTS), 0.99
        )
        for count in (20_000, 80_000)
    )

    assert short == pytest.approx(long, rel=0.1)


def test_whoever_knows_more_chooses_better():
    found = {
        policy: percentile(
            latencies(policy, nodes=20, clients=2, load=0.8, requests=20_000, costs=COSTS), 0.99
        )
        for policy in POLICIES
    }

    assert found["random"] > found["fewest calls of the client"]
    assert found["random"] > found["the better of two, for all"]


class RealClient:
    """The class of servekit-client, in the place of ``SparseClient``."""

    def __init__(self, fleet):
        self._servers = Servers([f"http://{node.number}" for node in fleet.nodes])
        self._leases = {node.number: [] for node in fleet.nodes}

    def choose(self, tried):
        lease = self._servers.lease([f"http://{number}" for number in tried])
        number = int(lease.url.removeprefix("http://"))
        self._leases[number].append(lease)
        return number

    def end(self, node, status):
        kind = DeadlineExceeded if status == 504 else ERRORS.get(status)
        self._leases[node].pop().end(kind(status=None) if kind else None)

    def has_other(self, tried):
        return self._servers.has_other([f"http://{number}" for number in tried])


@pytest.fixture
def real():
    """Return a function that makes clients of servekit-client, in simulated time."""
    fleets = []

    def make(fleet):
        fleets.append(fleet)
        return RealClient(fleet)

    with (
        patch("servekit_client.servers.monotonic", lambda: fleets[-1].now),
        patch("servekit_client.servers.random", lambda: fleets[-1].random.random()),
    ):
        yield make


@pytest.mark.parametrize("state", ["closed", "hangs"])
def test_clients_choose_by_the_rules_of_servekit_client(state, real):
    """How many calls fail, how long that lasts, and how the others fare."""
    given = {"nodes": 5, "clients": 4, "load": 0.6, "seconds": 5.0, "costs": COSTS}
    sparse, found = lose_nodes(state, **given), lose_nodes(state, client=real, **given)

    assert sparse.failed == pytest.approx(found.failed, rel=0.5, abs=4)
    assert max(sparse.failed_s) == pytest.approx(max(found.failed_s), abs=1)
    for share in (0.5, 0.99):
        expected = pytest.approx(percentile(found.latencies, share), rel=0.1)
        assert percentile(sparse.latencies, share) == expected


def test_nodes_that_return_get_their_share_as_with_servekit_client(real):
    given = {"nodes": 30, "at_once": 3, "clients": 60, "load": 0.5, "costs": COSTS, "away_s": 0.3}
    sparse, found = roll(**given, rounds=4), roll(client=real, **given, rounds=4)

    assert (sparse.failed, found.failed) == (0, 0)
    for share in (0.9, 0.99):
        expected = pytest.approx(percentile(found.latencies, share), rel=0.25)
        assert percentile(sparse.latencies, share) == expected


@pytest.mark.parametrize("state", ["closed", "hangs"])
def test_a_lost_node_costs_little(state):
    seen = lose_nodes(state, nodes=5, clients=3, load=0.5, seconds=4.0, costs=COSTS)

    assert seen.statuses[200] > 10_000
    assert 0 < seen.failed < 0.01 * seen.statuses[200]
    if state == "closed":
        assert set(seen.statuses) == {200, -1}  # only what it had
        assert max(seen.failed_s) == LOST_AT_S


def test_a_client_rests_a_node_after_three_failures_and_tries_it_once_after_that():
    fleet = SimpleNamespace(nodes=[0, 1], now=0.0, random=Random(1))
    client = SparseClient(fleet)
    for _ in range(3):
        client._calls[0] = 1
        client.end(0, 504)

    assert {client.choose([]) for _ in range(5)} == {1}
    fleet.now = 1.5
    assert not client._troubles[0].is_tried
    assert [client.choose([1]), client.choose([])] == [0, 1]


def test_nodes_that_are_replaced_fail_no_request():
    seen = roll(nodes=6, at_once=1, clients=3, load=0.5, costs=COSTS)

    assert set(seen.statuses) == {200}


def test_nodes_that_are_replaced_without_room_fail_requests():
    costs = replace(COSTS, queue=100)
    seen = roll(nodes=4, at_once=2, clients=3, load=0.8, costs=costs, rounds=1)

    assert seen.statuses[429] > 0


def test_an_autoscaler_with_room_refuses_nothing():
    cold = grow(Scaler(place_s=120.0), costs=COSTS)
    warm = grow(Scaler(place_s=5.0, period_s=5.0, lag_s=2.0, most_at_once=10.0), costs=COSTS)

    assert cold.refused > warm.refused
    assert cold.until_s > 120 > warm.until_s
    assert cold.nodes >= 71  # ten times 10 * 0.5 / 0.7
    assert grow(Scaler(), costs=COSTS, factor=1.2).refused == 0


def test_the_number_of_nodes_changes_nothing_about_the_share_that_is_refused():
    ten, thousand = (grow(Scaler(), costs=COSTS, nodes=nodes).refused for nodes in (100, 1000))

    assert ten == pytest.approx(thousand, rel=0.02)


def test_the_costs_of_a_call_are_those_of_a_line():
    assert line({1: 0.005, 2: 0.006, 4: 0.008}) == pytest.approx((0.004, 0.001))


def test_the_page_says_how_each_cost_was_measured():
    costs = Costs.measured()

    assert costs.machine in introduction(costs)
    assert all(value for value in costs.as_json().values())


def test_calls_do_not_multiply_with_the_nodes_when_all_are_full(monkeypatch):
    sent = Counter()
    send = Call.send
    monkeypatch.setattr(Call, "send", lambda call: (sent.update(["send"]), send(call)))
    costs = replace(COSTS, queue=50)
    seen = roll(nodes=20, at_once=1, clients=80, load=1.3, costs=costs, rounds=1, away_s=0.3)

    assert seen.failed > 0
    assert sent["send"] / sum(seen.statuses.values()) < 1 + OTHERS

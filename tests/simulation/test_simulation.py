# SPDX-License-Identifier: Apache-2.0
"""The simulation agrees with what is known of queues, and with itself."""

import pytest

from tests.simulation.balancing import POLICIES, latencies, percentile
from tests.simulation.fleet import Costs
from tests.simulation.growing import Scaler, grow
from tests.simulation.losing import lose_a_node, roll

SINGLE = Costs(batch_s=0.0, input_s=0.001, max_batch=1, queue=10**9, network_s=0.0)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_one_node_without_batches_is_the_queue_of_the_textbook(load):
    """M/D/1: the mean wait is load / (2 (1 - load)) service times (Pollaczek and Khinchine)."""
    found = latencies("random", nodes=1, clients=1, load=load, requests=60_000, costs=SINGLE)
    expected = 0.001 * (1 + load / (2 * (1 - load)))

    assert sum(found) / len(found) == pytest.approx(expected, rel=0.05)


def test_the_same_seed_gives_the_same_times():
    first, again, other = (
        latencies("random", nodes=3, clients=2, load=0.5, requests=500, seed=seed)
        for seed in (1, 1, 2)
    )

    assert first == again != other


def test_whoever_knows_more_chooses_better():
    found = {
        policy: percentile(latencies(policy, nodes=20, clients=2, load=0.8, requests=20_000), 0.99)
        for policy in POLICIES
    }

    assert found["random"] > found["fewest calls of the client"]
    assert found["random"] > found["the better of two, for all"]


@pytest.mark.parametrize("state", ["closed", "hangs"])
def test_a_lost_node_costs_little(state):
    seen = lose_a_node(state, nodes=5, clients=3, load=0.5, seconds=6.0)
    failed = sum(count for status, count in seen.statuses.items() if status != 200)

    assert seen.statuses[200] > 10_000
    assert 0 < failed < 0.01 * seen.statuses[200]
    if state == "closed":
        assert set(seen.statuses) == {200, -1}  # only what it had
        assert max(seen.failed_s) == 2.0


def test_nodes_that_are_replaced_fail_no_request():
    seen, _ = roll(nodes=6, at_once=1, clients=3, load=0.5, out_s=1.0)

    assert set(seen.statuses) == {200}


def test_an_autoscaler_with_room_refuses_nothing():
    cold = grow(Scaler(cold_s=120.0))
    warm = grow(Scaler(cold_s=5.0, period_s=5.0, lag_s=2.0, most_at_once=10.0))

    assert cold.refused > warm.refused
    assert cold.until_s > 120 > warm.until_s
    assert cold.nodes >= 71  # ten times 10 * 0.5 / 0.7
    assert grow(Scaler(), factor=1.2).refused == 0

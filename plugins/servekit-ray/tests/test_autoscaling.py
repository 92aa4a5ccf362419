# SPDX-License-Identifier: Apache-2.0
"""How many servers are needed, by the metrics of those that serve. No Ray."""

from dataclasses import replace

import pytest
from servekit_ray.autoscaling import QueueLoad, ServerScaler, read_loads

PAGE = """\
# HELP servekit_queue_duration_seconds how long the oldest task of a batch waited
servekit_queue_duration_seconds_bucket{le="0.1",model="a",version="1"} 3
servekit_queue_duration_seconds_sum{model="a",version="1"} 1.5
servekit_queue_duration_seconds_sum{model="b",version="1"} 0.5
servekit_queue_duration_seconds_count{model="a",version="1"} 3
servekit_predict_duration_seconds_sum{model="a",version="1"} 7e-1
servekit_tasks_waiting{model="a",version="1"} 4
servekit_replicas{model="a",state="serving",version="1"} 2
servekit_replicas{model="a",state="failed",version="1"} 1
servekit_stage_tasks_waiting{model="c",version="1",stage="decode"} 5
servekit_stage_queue_duration_seconds_sum{model="c",version="1",stage="predict"} 6
servekit_replicas{model="c",state="serving",version="1"} 4
"""


def test_a_page_of_metrics_is_read_queue_by_queue():
    assert read_loads(PAGE) == {
        ("a", "1", ""): QueueLoad(1.5, 0.7, 3.0, 4.0, 2.0),
        ("b", "1", ""): QueueLoad(waited_s=0.5),
        ("c", "1", "decode"): QueueLoad(waiting=5.0, replicas=2.0),
        ("c", "1", "predict"): QueueLoad(waited_s=6.0, replicas=2.0),
    }


def decisions(steps, servers=2, starting=0):
    """Decide every two seconds; each step adds loads to those before, on every server.

    A step is the load of one model, or those of several.
    """
    steps = [step if isinstance(step, tuple) else (step,) for step in steps]
    scaler, found, sums = ServerScaler(), [], [QueueLoad()] * len(steps[0])
    for number, step in enumerate([tuple(sums), *steps]):
        sums = [total(before, done) for before, done in zip(sums, step, strict=True)]
        loads = {("m", str(place), ""): load for place, load in enumerate(sums)}
        every = {f"server {each}": loads for each in range(servers)}
        found.append(scaler.decide(100.0 + 2 * number, every, starting=starting))
    return found


def total(before, done):
    return replace(before + done, waiting=done.waiting, replicas=1.0)


LONG = QueueLoad(waited_s=20, predicted_s=2, batches=20)
STUCK = QueueLoad(waiting=9)
BUSY = QueueLoad(waited_s=0.2, predicted_s=1.6, batches=20)
IDLE = QueueLoad(waited_s=0.0, predicted_s=0.1, batches=20)


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        pytest.param([LONG] * 3, 2, id="long waits double the servers"),
        pytest.param([LONG] * 2, 0, id="a short while of them does not"),
        pytest.param([LONG, IDLE, LONG, LONG], 0, id="nor waits that have ended"),
        pytest.param([STUCK] * 3, 2, id="nothing is answered"),
        pytest.param([IDLE] * 31, -1, id="a minute with little to do"),
        pytest.param([QueueLoad()] * 31, -1, id="a minute without requests"),
        pytest.param([IDLE] * 30, 0, id="less than a minute"),
        pytest.param([BUSY] * 40, 0, id="one server could not do it alone"),
    ],
)
def test_decisions(steps, last):
    assert decisions(steps)[-1] == last


QUICK = QueueLoad(waited_s=0.2, predicted_s=0.5, batches=2000)


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        pytest.param([(LONG, QUICK)] * 3, 2, id="waits of one hidden by batches of another"),
        pytest.param([(STUCK, QUICK)] * 3, 2, id="nothing is answered by one"),
        pytest.param([(BUSY, QUICK)] * 40, 0, id="one has no replicas to spare"),
        pytest.param([(IDLE, QUICK)] * 31, -1, id="both have little to do"),
    ],
)
def test_the_model_that_is_worst_off_decides(steps, last):
    assert decisions(steps)[-1] == last


@pytest.mark.parametrize(
    ("step", "last"),
    [
        pytest.param(LONG, 0, id="more are on their way"),
        pytest.param(IDLE, -1, id="it is not needed any more"),
        pytest.param(BUSY, 0, id="the others have no time to spare"),
    ],
)
def test_servers_that_start_forbid_more_and_not_less(step, last):
    assert decisions([step] * 31, starting=1)[-1] == last


def test_a_server_that_is_new_counts_from_its_second_look():
    scaler = ServerScaler()

    assert scaler.decide(1.0, {"a": {("m", "1", ""): LONG}}) == 0
    assert scaler.decide(3.0, {}) == 0

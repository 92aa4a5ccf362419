# SPDX-License-Identifier: Apache-2.0
"""Which tasks of a queue become a batch if their inputs have a cost."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.frontend.batching.batch_costs import BatchCosts, costs_of
from servekit.frontend.batching.queue import TaskQueue
from servekit.frontend.batching.task import Task
from servekit.frontend.memory.pressure import QueueMemory
from servekit.ipc.batches import Item
from servekit.ipc.table import ModelRow

NAMES = count()
FREE = 2**20


def queue_of(*sizes):
    queue = TaskQueue(None, QueueMemory(FREE))
    for size in sizes:
        item = Item(b"x" * size, b"", b"", f"r{next(NAMES)}", 30.0)
        queue.put(Task(None, None, item, 0.0, 30.0, size))
    return queue


def batches(costs, queue, room=None):
    """Return the sizes of the bodies of each batch until *queue* is empty."""
    found = []
    while batch := costs.take(queue, 1.0, room or costs.limits[0]):
        found.append([task.body_bytes for task in batch])
    return found


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([100] * 10, [[100] * 4, [100] * 4, [100] * 2], id="full by cost"),
        pytest.param([1] * 20, [[1] * 16, [1] * 4], id="full by number"),
        pytest.param([900], [[900]], id="what alone costs too much goes alone"),
        pytest.param([1, 20, 3], [[1, 20, 3]], id="those of which many fit are alike"),
        pytest.param(
            [30, 300, 40, 200], [[30, 40], [300], [200]], id="long ones do not pad others"
        ),
        pytest.param([100, 180, 90, 110, 120], [[100, 90, 110], [180, 120]], id="nearest first"),
        pytest.param([200, 50, 50, 50], [[200], [50, 50, 50]], id="the oldest leaves first"),
    ],
)
def test_batches(sizes, expected):
    costs = BatchCosts(16, 400)

    assert batches(costs, queue_of(*sizes)) == expected


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=80),
    st.integers(1, 16),
    st.integers(1, 3000),
)
def test_each_task_leaves_once_with_the_oldest_and_within_the_cost(sizes, most, limit):
    costs, queue = BatchCosts(most, limit), queue_of(*sizes)
    waiting = list(queue)
    while waiting:
        batch = costs.take(queue, 1.0, most)
        places = [waiting.index(task) for task in batch]
        largest = max(task.body_bytes for task in batch)

        assert places[0] == 0
        assert places == sorted(places)
        assert len(batch) <= most
        assert len(batch) == 1 or len(batch) * largest <= limit
        waiting = [task for task in waiting if task not in batch]
    assert (queue.waiting, queue._memory.free) == (0, FREE)


def test_tasks_that_stay_are_not_sent():
    queue = queue_of(10, 300, 12)
    batch = BatchCosts(4, 400).take(queue, 1.0, 4)

    assert [task.is_sent for task in batch] == [True, True]
    assert [(task.body_bytes, task.is_sent) for task in queue] == [(300, False)]


def test_a_task_that_was_lost_goes_alone():
    queue = queue_of(10, 10, 10)
    next(iter(queue)).was_lost = True

    assert batches(BatchCosts(4, 400), queue) == [[10], [10, 10]]


def test_what_batches_cost_changes_the_estimate():
    costs = BatchCosts(16, 400)
    costs.learn(queue_of(100, 300), 100.0)

    assert batches(costs, queue_of(*[400] * 5)) == [[400] * 4, [400]]
    costs.learn(queue_of(400), 0.0)
    for _ in range(50):
        costs.learn(queue_of(400), 400.0)
    assert batches(costs, queue_of(*[350] * 2)) == [[350], [350]]


def test_a_queue_fills_a_batch_by_cost():
    costs = BatchCosts(16, 400)

    assert not costs.fills(queue_of(100, 200))
    assert costs.fills(queue_of(100, 200, 100))


def test_what_was_learned_stays_while_the_limits_do():
    row = ModelRow("m", "1", "", [], 16, 0.0, 30.0, 100)
    assert costs_of(row, None) is None
    row.max_batch_cost = 400.0
    costs = costs_of(row, None)

    assert costs_of(row, costs) is costs
    row.max_batch_size = 8
    assert costs_of(row, costs) is not costs

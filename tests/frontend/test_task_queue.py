# SPDX-License-Identifier: Apache-2.0
"""The queue of one model without sockets: order, deadlines, and the memory of bodies."""

from itertools import count

import pytest

from servekit.errors import NotReady
from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.batching.environment import BatchingEnvironment
from servekit.frontend.batching.task_route import make_task
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.metrics.counters import ModelMetrics
from servekit.ipc.batches import Item
from servekit.ipc.counter_share import Share
from servekit.ipc.counters import create_memory
from servekit.ipc.model_counters import Label
from servekit.ipc.table import Interface, ModelRow, ReplicaRow

ROW = ModelRow("m", "1", "", [ReplicaRow(0, 1, "/nobody", "serving")], 8, 0.0, 30.0, 1000)
ROW.interface = Interface()


class Clients:
    """Stands for every connection: remembers which status each request got."""

    def __init__(self):
        self.statuses = {}

    def fail(self, error, request_id):
        assert request_id not in self.statuses, "answered twice"
        self.statuses[request_id] = error.status


@pytest.fixture
def model(tmp_path):
    """Return a maker of models that share a queue memory of 1,000 bytes."""
    memory, names = QueueMemory(1000), count()

    def make():
        metrics = ModelMetrics(Share(create_memory(), 0), Label(f"m{next(names)}", "1"))
        environment = BatchingEnvironment(
            loop=None, pressure=Pressure(0, 5.0), queue_memory=memory, report=None,
            begin_call=None, front_ends=1, arena_bytes=2**16, large_body_bytes=2**16,
        )  # fmt: skip
        made = Batcher(ROW, metrics, {}, environment)
        made.clients, made.memory = Clients(), memory
        return made

    return make


def put(batcher, name, size=10, deadline=30.0):
    item = Item(b"x" * size, b"", b"", name, deadline)
    task = make_task(batcher, batcher.clients, item, 0.0)
    batcher.put(task)
    return task


def ids(tasks):
    return [task.request_id for task in tasks]


def test_tasks_leave_in_order_of_arrival(model):
    batcher = model()
    for name in "abc":
        put(batcher, name)

    assert ids(batcher.queue.take(1.0, 2)) == ["a", "b"]
    assert ids(batcher.queue.take(1.0, 2)) == ["c"]


def test_what_is_late_or_dropped_never_leaves_and_is_answered_once(model):
    batcher = model()
    tasks = [put(batcher, name, deadline=d) for name, d in zip("abcd", (5, 30, 5, 30), strict=True)]
    batcher.cancel(tasks[1])

    assert ids(batcher.queue.take(10.0, 8)) == ["d"]
    batcher.queue.expire(10.0)
    assert batcher.clients.statuses == {"a": 504, "c": 504}


def test_early_deadlines_are_kept_in_the_middle_of_the_queue(model):
    batcher = model()
    for name, deadline in (("a", 30.0), ("b", 2.0), ("c", 30.0)):
        put(batcher, name, deadline=deadline)
    batcher.queue.expire(3.0)

    assert (batcher.clients.statuses, len(batcher.queue)) == ({"b": 504}, 2)


def test_tasks_that_are_done_are_not_kept_until_their_deadline(model):
    batcher = model()
    for number in range(1000):
        put(batcher, str(number), deadline=20.0)
        for task in batcher.queue.take(1.0, 8):
            task.is_done = True
    batcher.queue.expire(1.0)

    assert len(batcher.queue.early) == 0


def test_members_of_a_lost_batch_go_first_and_alone(model):
    batcher = model()
    for name in "abcd":
        put(batcher, name)
    lost = batcher.queue.take(1.0, 2)
    for task in lost:
        task.was_lost = True
    batcher.queue.put_back(lost)

    assert [ids(batcher.queue.take(1.0, 8)) for _ in range(3)] == [["a"], ["b"], ["c", "d"]]


ENDS = {
    "taken": lambda batcher, task: batcher.queue.take(1.0, 8),
    "taken too late": lambda batcher, task: batcher.queue.take(99.0, 8),
    "expired": lambda batcher, task: batcher.queue.expire(99.0),
    "cancelled": lambda batcher, task: batcher.cancel(task),
    "failed": lambda batcher, task: batcher.queue.fail(NotReady()),
    "put back and taken": lambda batcher, task: (
        batcher.queue.put_back(batcher.queue.take(1.0, 8)),
        batcher.queue.take(1.0, 8),
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_memory_of_a_body_is_free_again_once_it_is(model, end):
    batcher = model()
    task = put(batcher, "a", size=400)
    assert batcher.memory.free == 600
    end(batcher, task)

    assert batcher.memory.free == 1000


def test_a_hot_model_leaves_memory_to_the_others(model):
    hot, other, third = model(), model(), model()
    for batcher, expected in ((hot, 50), (other, 25), (third, 13)):
        number = count()
        while batcher.queue.has_room(10):
            put(batcher, str(next(number)), size=10)
        assert len(batcher.queue) == expected
    other.queue.fail(NotReady())

    assert third.queue.has_room(10)
    assert not hot.queue.has_room(10)


def test_a_body_larger_than_all_memory_is_taken_when_nothing_waits(model):
    batcher = model()

    assert batcher.queue.has_room(5000)
    put(batcher, "large", size=5000)
    assert not batcher.queue.has_room(1)

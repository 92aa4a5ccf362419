# SPDX-License-Identifier: Apache-2.0
"""Why each batch left the queue, without sockets."""

import os
from time import monotonic
from types import SimpleNamespace

import pytest

from servekit.frontend.batching import queue as module
from servekit.frontend.batching.queue import BatchFeed, TaskQueue
from servekit.frontend.batching.task_route import make_task
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.metrics.counters import ModelMetrics
from servekit.ipc.batches import Item
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.model_counters import LEFT, Label


class Worker:
    """Takes up to *room* tasks at once, and only once."""

    def __init__(self, room=100):
        self.room, self.taken = room, []

    def send(self, tasks, _now):
        self.taken += tasks[: self.room]
        return tasks[self.room :]


class OnlyOne:
    """In place of the costs of inputs: each is expensive."""

    def take(self, queue, now, _room):
        return queue.take(now, 1)

    def fills(self, _tasks):
        return True


@pytest.fixture
def feed():
    """Return a feed of batches of at most 4, with its queue."""
    counters = Counters(create_memory())
    metrics = ModelMetrics(counters.share(counters.give()), Label("a", "1"))
    queue = TaskQueue(metrics, QueueMemory(10**6))
    found = BatchFeed(queue, SimpleNamespace(), Pressure(0, 5.0), metrics)
    found.max_batch_size = 4
    yield SimpleNamespace(feed=found, queue=queue, metrics=metrics)
    os.close(counters.descriptor)


def put(feed, count=1, deadline_s=30.0, age_s=0.0):
    """Queue *count* tasks that arrived *age_s* ago."""
    owner = SimpleNamespace(metrics=feed.metrics, tracer=None)
    client = SimpleNamespace(fail=lambda *_: None)
    now = monotonic()
    tasks = [
        make_task(owner, client, Item(b"x" * 60, b"", b"", "", now + deadline_s), now - age_s)
        for _ in range(count)
    ]
    for task in tasks:
        feed.queue.put(task)
    return tasks


def reasons(feed, *workers):
    """Let *workers* take what waits, and return why the batches left."""
    feed.feed._idle[:] = workers
    feed.feed.dispatch()
    assert set(feed.metrics.left) <= set(LEFT)
    return feed.metrics.left


@pytest.mark.parametrize(
    ("waiting", "workers", "expected"),
    [
        pytest.param(1, [100], ["worker_idle"], id="a worker takes all that wait"),
        pytest.param(6, [100], ["full"], id="no more fit into a batch"),
        pytest.param(6, [100, 100], ["shared", "worker_idle"], id="two workers share what waits"),
        pytest.param(2, [1], ["full"], id="the worker has one slot"),
        pytest.param(2, [0], [], id="the model is asleep"),
    ],
)
def test_batches_without_a_delay(feed, waiting, workers, expected):
    put(feed, waiting)

    assert reasons(feed, *map(Worker, workers)) == expected


def test_a_partial_batch_leaves_when_its_delay_is_over(feed):
    feed.feed.max_delay_s = 0.5
    put(feed, 2, age_s=1.0)

    assert reasons(feed, Worker()) == ["delay_over"]


def test_with_a_delay_a_full_batch_is_not_shared(feed):
    feed.feed.max_delay_s = 100.0
    tasks = put(feed, 4)
    workers = [Worker(), Worker()]

    assert reasons(feed, *workers) == ["full"]
    assert workers[1].taken == tasks


def test_a_deadline_lets_the_others_leave_before_their_delay_is_over(feed):
    feed.feed.max_delay_s = 100.0
    put(feed, deadline_s=-0.1)
    put(feed)

    assert reasons(feed, Worker()) == ["deadline"]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_task_that_was_lost_goes_alone_and_those_before_it_too(feed, lost):
    put(feed, 2)[lost].was_lost = True

    assert reasons(feed, Worker()) == ["retried"]


def test_large_bodies_do_not_fit_into_one_message(feed, monkeypatch):
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 100)
    put(feed, 2)

    assert reasons(feed, Worker()) == ["too_large"]


@pytest.mark.parametrize(("waiting", "delay_s"), [(2, 0.0), (1, 100.0)])
def test_a_batch_is_full_by_cost(feed, waiting, delay_s):
    feed.feed.costs, feed.feed.max_delay_s = OnlyOne(), delay_s
    put(feed, waiting)

    assert reasons(feed, Worker()) == ["cost"]

# SPDX-License-Identifier: Apache-2.0
"""Answers that queue further tasks at once, as those of several instances do; no sockets."""

import os
from itertools import count
from time import monotonic
from types import SimpleNamespace

import pytest

from servekit.frontend.batching.queue import KEPT, BatchFeed, TaskQueue
from servekit.frontend.batching.stream_slots import StreamSlots
from servekit.frontend.batching.task import Task
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.metrics.counters import ModelMetrics
from servekit.ipc.batches import Hello, Item, Part, Parts
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.model_counters import Label


class Reader:
    """The consumer of a task: queues *following* more as soon as it is over."""

    trace = None

    def __init__(self, put, following=0):
        self._put, self._following, self.ended = put, following, []

    def take(self, task, _response):
        self._end(task, 200)

    def fail(self, error):
        self._end(None, error.status)

    def _end(self, _task, status):
        self.ended.append(status)
        for _ in range(self._following):
            self._put(Reader(self._put))


@pytest.fixture
def model():
    """Return a feed and its queue, and a function that queues a task of a consumer."""
    counters = Counters(create_memory())
    metrics = ModelMetrics(counters.share(counters.give()), Label("a", "1"))
    queue, numbers = TaskQueue(metrics, QueueMemory(10**6)), count()
    queue.capacity, queue.usual_s = 256, 30.0
    loop = SimpleNamespace(run_callback=lambda call: None)
    feed = BatchFeed(queue, loop, Pressure(0, 5.0), metrics)
    feed.max_batch_size = 8
    owner = SimpleNamespace(
        metrics=metrics, colocated={}, tracer=None, pressure=feed._pressure, learn_cost=None,
        row=SimpleNamespace(stage="", predict_timeout_s=30.0),
    )  # fmt: skip

    def put(consumer, deadline_s=30.0, exchange=None):
        now = monotonic()
        item = Item(b"x", b"", b"", str(next(numbers)), now + deadline_s)
        feed.put(task := Task(exchange, owner, item, now, now + deadline_s, 1, consumer=consumer))
        return task

    yield SimpleNamespace(feed=feed, queue=queue, put=put)
    os.close(counters.descriptor)


class Channel:
    """Collects what the worker is sent."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)


def slots_of(model, number):
    leases = SimpleNamespace(lend=lambda _items: [], borrow=lambda *_: None, returned=[])
    replica = SimpleNamespace(leases=leases, is_retired=False, life=SimpleNamespace(heard_at=0.0))
    channel = Channel()
    slots = StreamSlots(replica, model.feed, channel, Hello(1, number, is_async=True))
    model.feed.add(slots)
    return slots, channel


def answer(slots, channel):
    """Let the worker end all that it was sent, in one turn; return how many."""
    opened, channel.sent = channel.sent, []
    ends = [Part(each.stream, "", b"", 1, ("", "", b"1"), times=(0.0, 0.0, 0.0)) for each in opened]
    if ends:
        slots.on_message(Parts(ends))
    return len(ends)


def test_a_worker_whose_slots_are_filled_while_it_ends_others_stays_in_the_feed(model):
    """Its free slots are offered again, however the ends and the new tasks alternate."""
    slots, channel = slots_of(model, 4)
    for _ in range(2):
        model.put(Reader(model.put, following=3))
    model.feed.dispatch()

    answered = sum(iter(lambda: answer(slots, channel), 0))

    assert (answered, model.queue.waiting) == (8, 0)
    model.put(Reader(model.put))
    model.feed.dispatch()
    assert len(channel.sent) == 1


class Taker:
    """A worker that keeps what it gets."""

    def __init__(self):
        self.taken = []

    def send(self, tasks, _now):
        self.taken += tasks
        return []


@pytest.mark.parametrize("workers", [1, 2])
def test_the_refusal_of_a_late_task_may_queue_the_next_one(model, workers):
    """Every task reaches one worker, and the feed comes to its end."""
    late = Reader(model.put, following=2)
    model.put(late, deadline_s=-1.0)
    takers, kept = [Taker() for _ in range(workers)], model.put(Reader(model.put))
    for each in takers:
        model.feed._idle.append(each)

    model.feed.dispatch()
    sent = [task for each in takers for task in each.taken]

    assert late.ended == [504]
    assert len(sent) + model.queue.waiting == 3
    assert sent.count(kept) + list(model.queue).count(kept) == 1


def test_a_task_is_dropped_once_if_its_neighbour_takes_it_along(model):
    """A client that disconnects at the first refusal cancels its other requests."""

    class Client(Reader):
        def fail(self, error):
            super().fail(error)
            for task in others:
                if not task.is_done:
                    model.queue.drop(task, "cancelled", None)

    first = model.put(Client(model.put), deadline_s=-1.0)
    others = [model.put(Reader(model.put), deadline_s=-1.0) for _ in range(KEPT)]
    last = model.put(Reader(model.put))

    taken = model.queue.take(monotonic(), 8)

    assert first.consumer.ended == [504]
    assert (taken, model.queue.waiting) == ([last], 0)


class Client:
    """An exchange whose responses and streams cannot be written, or can."""

    protocol, model_version, is_closed, tells_when_sent, request = None, b"", False, False, None

    def __init__(self, *, is_broken=False):
        self._is_broken, self.got = is_broken, []

    def respond(self, response):
        if self._is_broken:
            raise ValueError("cannot be written")
        self.got.append(response.status)

    def begin_stream(self, _stream, response):
        self.respond(response)
        return SimpleNamespace(write=lambda piece: True, end=lambda: None)

    def end_stream(self, _size, _status=200):
        self.got.append("end")

    def reset(self):
        self.is_closed = True
        self.got.append("reset")


@pytest.mark.parametrize("media_type", ["", "text/event-stream"])
def test_outputs_that_cannot_be_sent_to_one_client_reach_the_others(model, media_type):
    """And the slot is free again."""
    slots, channel = slots_of(model, 3)
    clients = [Client(), Client(is_broken=True), Client()]
    for client in clients:
        model.put(None, exchange=client)
    model.feed.dispatch()

    end = ("", "application/json", b"1")
    times = 0.0, 0.0, 0.0
    parts = [Part(e.stream, media_type, b"1", 1, end, times=times) for e in channel.sent]
    slots.on_message(Parts(parts))

    well = [200, "end"] if media_type else [200]
    assert sorted((client.got for client in clients), key=str) == sorted(
        [well, ["reset"], well], key=str
    )
    assert slots.tasks == []
    assert len(slots._free) == 3

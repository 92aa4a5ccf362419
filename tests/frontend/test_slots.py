# SPDX-License-Identifier: Apache-2.0
"""What happens inside a turn in which a worker answers: nested sends, and its end."""

import os
from time import monotonic
from types import SimpleNamespace

import pytest

from servekit.frontend.batching.batch_slot import BatchSlot
from servekit.frontend.batching.queue import BatchFeed, TaskQueue
from servekit.frontend.batching.replica import ReplicaProxy
from servekit.frontend.batching.stream_slots import StreamSlots
from servekit.frontend.batching.task import Task
from servekit.frontend.memory.pressure import QueueMemory
from servekit.ipc.arena import OVERFLOW_BYTES, Arena
from servekit.ipc.arena_reader import ArenaReader
from servekit.ipc.batches import Hello, Item, Part, Parts, Reply

MIB = 1 << 20


class Metrics:
    """Counts nothing."""

    def __init__(self):
        self.left, self.batches, self.answered = [], (), 0

    def __getattr__(self, _name):
        return lambda *_, **__: None


class Channel:
    """Keeps what is sent to the worker."""

    def __init__(self, answers=None):
        self.sent, self.cancelled, self._answers = [], SimpleNamespace(mark=list), answers

    def send(self, message):
        self.sent.append(message)

    def take(self):
        sent, self.sent = self.sent, []
        return sent

    def view(self, slab):
        return self._answers.view(slab)

    def close(self):
        self._answers.close()


def owner(metrics, **more):
    return SimpleNamespace(
        metrics=metrics,
        colocated={},
        tracer=None,
        bodies=None,
        learn_cost=None,
        row=SimpleNamespace(name="m", stage="", predict_timeout_s=30.0),
        **more,
    )


def task(of, consumer=None, exchange=None):
    now = monotonic()
    item = Item(b"x", b"", b"", "id", now + 30)
    return Task(exchange, of, item, now, now + 30, 1, consumer=consumer)


class Consumer:
    """A step of a pipeline that sends *count* tasks on when it has its output."""

    trace = None

    def __init__(self, put, count=0):
        self._put, self._count = put, count

    def take(self, _task, _response):
        for _ in range(self._count):
            self._put(Consumer(self._put))

    def fail(self, error):
        pytest.fail(f"failed: {error}")


def test_a_worker_with_slots_is_offered_again_when_a_step_has_filled_them_meanwhile():
    metrics, due, channel = Metrics(), [], Channel()
    of = owner(metrics)
    queue = TaskQueue(metrics, QueueMemory(1 << 30))
    queue.capacity, queue.usual_s = 128, 30
    loop = SimpleNamespace(run_callback=lambda call, *given: due.append((call, given)))
    feed = BatchFeed(queue, loop, SimpleNamespace(is_stalled=False), metrics)
    feed.max_batch_size = 8
    leases = SimpleNamespace(lend=lambda _: [], borrow=print, returned=[])
    life = SimpleNamespace(heard_at=0.0)
    replica = SimpleNamespace(leases=leases, is_retired=False, life=life, on_message=None)
    slots = StreamSlots(replica, feed, channel, Hello(1, slots=4, is_async=True))

    def put(consumer):
        feed.put(task(of, consumer))

    def turn():
        while due:
            call, given = due.pop(0)
            call(*given)

    feed.add(slots)
    put(Consumer(put, 3))
    put(Consumer(put, 3))
    answered = 0
    for _ in range(10):
        turn()
        ends = [
            Part(each.stream, "", b"", 1, ("", "", b"[1]"), times=(0, 0, 0))
            for each in channel.take()
        ]
        if not ends:
            break
        answered += len(ends)
        slots.on_message(Parts(ends))

    assert (answered, queue.waiting) == (8, 0)


def test_a_retired_worker_answers_its_last_batch_before_its_memory_is_closed():
    metrics, statuses = Metrics(), []
    memory = Arena(MIB, overflow=OVERFLOW_BYTES)
    slab = memory.allocate(2 * MIB)  # more than the arena has: it lies in the overflow
    memory.write(slab, b"x" * 2 * MIB)
    channel = Channel(ArenaReader(os.dup(memory.descriptor), MIB))
    feed = SimpleNamespace(remove=lambda _: None, add=lambda _: None, dispatch=list)
    of = owner(metrics, feed=feed, on_lost=lambda _: [])
    of.bodies = SimpleNamespace(free=lambda _: None)
    of.pressure = SimpleNamespace(refuses_answer=lambda _: False)
    replica = ReplicaProxy(of, SimpleNamespace(report=pytest.fail, keep_bodies=0))
    replica.row, replica.channel = SimpleNamespace(index=0), channel
    replica._slots = slot = BatchSlot(replica, feed, channel)
    exchange = SimpleNamespace(
        request=None,
        is_closed=False,
        respond=lambda response: statuses.append((response.status, len(response.body))),
        fail=lambda error, _: statuses.append((error.status, 0)),
    )
    slot.send([task(of, exchange=exchange)], monotonic())

    replica.retire()  # the routing table does not name it any more
    slot.on_message(Reply(1, [("", "application/octet-stream", slab)], 0, 0, 0))

    assert statuses == [(200, 2 * MIB)]

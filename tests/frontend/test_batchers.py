# SPDX-License-Identifier: Apache-2.0
"""The batchers of versions: who answers what waits when a version leaves the table."""

import os
from types import SimpleNamespace

import pytest

from servekit.errors import NotReady
from servekit.frontend.batching.batcher import Batcher
from servekit.frontend.batching.environment import BatchingEnvironment
from servekit.frontend.batching.task_route import make_task
from servekit.frontend.memory.pressure import Pressure, QueueMemory
from servekit.frontend.metrics.known import KnownMetrics
from servekit.frontend.routing.batchers import Batchers
from servekit.ipc.batches import Item, Slab
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.model_counters import Label
from servekit.ipc.table import ModelRow, ReplicaRow, StageRow, Table

LARGE = 4096


class Worker:
    """A replica whose channel is open; it takes no tasks."""

    channel, row, is_live = object(), ReplicaRow(0, 1, "/nobody", "serving"), True

    def __init__(self):
        self.tasks, self.is_retired = [], False

    def update(self, row):
        pass

    def sweep(self, now):
        pass

    def retire(self):
        self.is_retired = True


class Client:
    """Remembers the errors that it gets."""

    def __init__(self):
        self.errors = []

    def fail(self, error, _request_id):
        self.errors.append(type(error))


@pytest.fixture
def batchers():
    counters = Counters(create_memory())
    known = KnownMetrics(counters.share(counters.give()))
    environment = BatchingEnvironment(
        loop=SimpleNamespace(), pressure=Pressure(0, 5.0), queue_memory=QueueMemory(2**20),
        report=None, begin_call=None, front_ends=1, arena_bytes=2**20, large_body_bytes=LARGE,
    )  # fmt: skip

    def make(row):
        return Batcher(row, known.find(Label(row.label, row.version)), {}, environment)

    yield Batchers(make)
    os.close(counters.descriptor)


def row(version, *stages, replica=0):
    replicas = [
        ReplicaRow(replica + at, 1, "/nobody", "serving", stage=stage)
        for at, stage in enumerate(stages or ("",))
    ]
    rows = [StageRow(stage, 8, 0.0, 9e9) for stage in stages]
    return ModelRow("m", version, "", replicas, 8, 0.0, 9e9, 16, stages=rows)


def follow(batchers, *models):
    batchers.update(Table(list(models)))
    return batchers.defaults


def worker_of(batcher):
    batcher.pool._current = {0: Worker()}
    return batcher.pool._current[0]


def admitted(batcher, body=b"body"):
    task = make_task(batcher, Client(), Item(body, b"", b"", "r", 9e9), 0.0)
    batcher.admit(task)
    return task


def test_each_version_has_a_batcher_of_its_own(batchers):
    both = row("1")
    both.versions = [row("2", replica=1)]
    default = follow(batchers, both)["m"]

    assert batchers.of_version(both) == {"m": default}
    (other,) = batchers.of_version(both.versions[0]).values()
    assert (default.row.version, other.row.version) == ("1", "2")
    assert follow(batchers, row("1"))["m"] is default


def test_a_version_that_becomes_the_default_keeps_its_batcher(batchers):
    table = row("1")
    table.versions = [row("2", replica=1)]
    before = follow(batchers, table), batchers.of_version(table.versions[0])
    swapped = row("2", replica=1)
    swapped.versions = [row("1")]

    assert follow(batchers, swapped) == before[1]
    assert batchers.of_version(swapped.versions[0]) == before[0]


def test_what_waits_for_an_old_version_waits_on_while_it_has_a_worker(batchers):
    old = follow(batchers, row("1"))["m"]
    worker = worker_of(old)
    task = admitted(old)
    new = follow(batchers, row("2", replica=1))["m"]
    batchers.sweep(0.0)

    assert (list(old.queue), list(new.queue)) == ([task], [])
    assert not worker.is_retired


@pytest.mark.parametrize("size", [10, 2 * LARGE])
def test_what_waits_for_a_version_without_a_worker_goes_to_the_next(batchers, size):
    old = follow(batchers, row("1"))["m"]
    body = old.bodies.lay([b"x" * size])
    assert isinstance(body, Slab) == (size > LARGE)
    task = admitted(old, body)
    new = follow(batchers, row("2", replica=1))["m"]
    batchers.sweep(0.0)

    assert (old.queue.waiting, list(new.queue), task.owner) == (0, [task], new)
    assert bytes(new.bodies.content(task.item.body)) == b"x" * size
    assert list(batchers) == [new]


def test_a_version_leaves_once_its_workers_have_answered(batchers):
    old = follow(batchers, row("1"))["m"]
    worker = worker_of(old)
    worker.tasks = [admitted(old)]
    old.queue.take_all()
    worker_of(follow(batchers, row("2", replica=1))["m"])
    batchers.sweep(0.0)
    assert old in list(batchers)
    worker.tasks = []
    batchers.sweep(0.0)

    assert worker.is_retired
    assert old not in list(batchers)


def test_a_version_that_comes_back_at_once_keeps_its_batcher(batchers):
    old = follow(batchers, row("1"))["m"]
    worker_of(old)
    task = admitted(old)
    follow(batchers, row("2", replica=1))
    batchers.sweep(0.0)

    assert follow(batchers, row("1"))["m"] is old
    assert list(old.queue) == [task]
    batchers.sweep(0.0)
    assert list(batchers) == [old]


def test_the_memory_of_a_version_stays_while_a_body_arrives_there(batchers):
    old = follow(batchers, row("1"))["m"]
    slab = old.bodies.lay([b"x" * LARGE])  # as an upload has it
    follow(batchers, row("2", replica=1))
    batchers.sweep(0.0)
    assert old in list(batchers)
    assert bytes(old.bodies.content(slab)) == b"x" * LARGE
    old.bodies.free(slab)
    batchers.sweep(0.0)

    assert old not in list(batchers)
    assert old.bodies.lay([b"x" * LARGE]) == b"x" * LARGE  # no longer in its arena


def test_a_model_stays_ready_while_a_version_replaces_another(batchers):
    worker_of(follow(batchers, row("1"))["m"])
    assert batchers.live_replicas("m") == 1
    new = follow(batchers, row("2", replica=1))["m"]
    batchers.sweep(0.0)
    assert (sum(each.is_live for each in new.pool), batchers.live_replicas("m")) == (0, 1)
    worker_of(new)
    batchers.sweep(0.0)

    assert list(batchers) == [new]
    assert (batchers.live_replicas("m"), batchers.live_replicas("other")) == (1, 0)


def test_each_version_answers_for_itself(batchers):
    found = row("1")
    found.versions = [row("2", replica=1)]
    worker_of(follow(batchers, found)["m"])

    assert [batchers.live_replicas("m", version) for version in ("", "1", "2", "3")] == [1, 1, 0, 0]


def test_a_part_of_a_request_never_meets_a_stage_of_another_version(batchers):
    old = follow(batchers, row("1", "a", "b"))["m:a"]
    task = admitted(old)
    new = follow(batchers, row("2", "a", "b", replica=2))["m:a"]
    batchers.sweep(0.0)

    assert (new.queue.waiting, task.exchange.errors) == (0, [NotReady])


def test_a_model_that_is_unloaded_answers_what_waits_first(batchers):
    old = follow(batchers, row("1"))["m"]
    worker_of(old)
    task = admitted(old)
    follow(batchers)
    batchers.sweep(0.0)
    assert list(old.queue) == [task]
    old.pool._current.clear()
    batchers.sweep(0.0)

    assert task.exchange.errors == [NotReady]
    assert list(batchers) == []


def test_a_worker_gets_more_time_while_more_front_ends_share_it(batchers):
    table = Table([row("1")])
    limits = []
    for front_ends in (1, 2, 1, 0):  # 0: not known
        table.front_ends = front_ends
        batchers.update(table)
        (batcher,) = batchers
        limits.append(batcher.limits.silence_s)

    assert limits == [10.0, 10.0 + batcher.row.predict_timeout_s, 10.0, 10.0]

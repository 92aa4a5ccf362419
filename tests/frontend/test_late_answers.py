# SPDX-License-Identifier: Apache-2.0
"""An answer that comes after its deadline is 504, however seldom deadlines are looked at."""

from types import SimpleNamespace

import pytest

from servekit.errors import DeadlineExceeded
from servekit.frontend.batching.batch_slot import answer_batch
from servekit.frontend.batching.task_route import make_task
from servekit.ipc.batches import Item, Reply


class Listener:
    """Hears the answer of one task, or the error."""

    def respond(self, response):
        self.heard = (response.status, response.body)

    def fail(self, error, _request_id):
        self.heard = type(error)


@pytest.fixture
def batcher():
    counters = SimpleNamespace(
        answered=0,
        batches=[],
        observe_successes=lambda _: None,
        observe_response=lambda *_: None,
        count_failure=lambda *_: None,
    )
    return SimpleNamespace(metrics=counters, colocated={}, tracer=None)


def test_a_response_is_counted_before_it_is_sent(batcher):
    counted, seen = [], []
    batcher.metrics.observe_successes = lambda durations_s: counted.append(len(durations_s))
    listener = SimpleNamespace(respond=lambda _: seen.append(list(counted)))
    tasks = [make_task(batcher, listener, Item(b"", b"", b"", "id", 1.0), 0.0) for _ in range(2)]
    reply = Reply(1, [("", "text/plain", b"a")] * 2, 0.0, 0.0, 0.0)

    answer_batch(tasks, reply, 0.0, 0.1, None)

    assert seen == [[2], [2]]


def test_only_those_whose_time_is_over_are_late(batcher):
    listeners = [Listener() for _ in range(3)]
    tasks = [
        make_task(batcher, listener, Item(b"", b"", b"", "id", deadline), 0.0)
        for listener, deadline in zip(listeners, (0.1, 0.100001, 5.0), strict=True)
    ]
    reply = Reply(1, [("", "text/plain", b"a")] * 3, 0.0, 0.0, 0.0)

    answer_batch(tasks, reply, 0.0, 0.1, None)

    assert [each.heard for each in listeners] == [DeadlineExceeded, (200, b"a"), (200, b"a")]


def test_error_that_comes_late_is_late_too(batcher):
    listener = Listener()
    task = make_task(batcher, listener, Item(b"", b"", b"", "id", 0.1), 0.0)
    reply = Reply(1, [("ServiceError", "", b"")], 0.0, 0.0, 0.0)

    answer_batch([task], reply, 0.0, 0.2, None)

    assert listener.heard is DeadlineExceeded

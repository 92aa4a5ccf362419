# SPDX-License-Identifier: Apache-2.0
"""Copies of requests for a version that is tried out."""

import os

import pytest

from servekit.frontend.routing import mirror
from servekit.ipc.model_counters import MIRRORED, PLACES, Label
from servekit.ipc.table import Interface, RouteRow, StepRow, TrafficRow

from .routed import LARGE, Routed, version_row


@pytest.fixture
def routed():
    found = Routed()
    yield found
    os.close(found.counters.descriptor)


def publish(routed, *, capacity=16, state="serving", **rules):
    """Publish a version, and one that gets copies of its requests."""
    row = version_row("1", interface=Interface())
    shadow = version_row("2", 1, state=state, interface=Interface())
    shadow.capacity = capacity
    row.versions = [shadow]
    row.traffic = TrafficRow(**({"mirror": "2"} | rules))
    routed.publish(row)
    workers = {worker.batcher.row.version: worker for worker in routed.workers.values()}
    return workers["1"], workers["2"]


def results(routed, version="2"):
    """Return how many copies had each result."""
    values = routed.routing.metrics.find(Label("m", version)).values
    return {name: int(values[PLACES[name]]) for name in MIRRORED if values[PLACES[name]]}


def finish(exchange):
    return exchange.response.status, bytes(exchange.response.body), exchange.response.model_version


@pytest.mark.parametrize("is_first", [True, False], ids=["copy first", "client first"])
@pytest.mark.parametrize(
    ("how", "result"),
    [
        ({"body": b"one"}, "equal"),
        ({"body": b"two"}, "other_body"),
        ({"error": "PredictFailed"}, "other_status"),
    ],
)
def test_answers_are_compared_and_those_of_the_shadow_not_given(routed, how, result, is_first):
    given, copied = publish(routed)
    exchange = routed.begin("/m/predict", b"in")
    assert not copied.tasks, "the copy did not wait for the request"
    routed.loop.run()
    assert [task.item.body for task in (*given.tasks, *copied.tasks)] == [b"in", b"in"]
    turns = [lambda: given.answer(body=b"one"), lambda: copied.answer(**how)]
    for turn in reversed(turns) if is_first else turns:
        turn()

    assert finish(exchange) == (200, b"one", b"1")
    assert results(routed) == {result: 1}
    assert results(routed, "1") == {}


def test_the_client_never_waits_for_the_copy(routed):
    given, copied = publish(routed)
    exchange = routed.begin("/m/predict")
    routed.loop.run()
    given.answer(body=b"one")

    assert finish(exchange) == (200, b"one", b"1")
    assert (len(copied.tasks), results(routed)) == (1, {})


@pytest.mark.parametrize("percent", [0, 1, 30, 100])
def test_a_share_of_the_requests_is_copied(routed, percent):
    for _ in range(100):
        publish(routed, mirror_percent=percent)  # a new table does not begin the share anew
        routed.ask("/m/predict")

    assert sum(results(routed).values()) == percent


def test_large_bodies_are_copied_to_the_memory_of_the_shadow(routed):
    given, copied = publish(routed)
    exchange = routed.begin("/m/predict", b"x" * LARGE)
    routed.loop.run()
    (task,), body = copied.tasks, given.batcher.bodies
    assert bytes(copied.batcher.bodies.content(task.item.body)) == b"x" * LARGE
    assert copied.batcher.bodies is not body
    routed.answer(body=b"same")

    assert finish(exchange)[:2] == (200, b"same")
    assert results(routed) == {"equal": 1}


def test_copies_take_no_more_than_half_of_the_queue(routed):
    _, copied = publish(routed, capacity=4)
    copied.batcher.feed.remove(copied)
    for _ in range(6):
        routed.begin("/m/predict")
        routed.loop.run()

    assert copied.batcher.queue.waiting == 2
    assert results(routed) == {"dropped": 4}


def test_bodies_that_are_too_large_are_not_copied(routed, monkeypatch):
    monkeypatch.setattr(mirror, "MAX_BYTES", 3)
    publish(routed)
    for body in (b"xxx", b"xxxx"):
        routed.begin("/m/predict", body)
    routed.answer(body=b"same")

    assert results(routed) == {"equal": 1, "dropped": 1}


def test_streams_are_not_copied(routed):
    publish(routed)
    routed.begin("/m/predict", accept=b"text/event-stream")
    routed.answer()

    assert results(routed) == {"dropped": 1}


def test_a_request_whose_client_leaves_is_not_compared(routed):
    _, copied = publish(routed)
    exchange = routed.begin("/m/predict")
    routed.loop.run()
    exchange.is_closed = True
    exchange.prediction.cancel()
    exchange.observe_end(None, 0)
    copied.answer()

    assert results(routed) == {"dropped": 1}


def test_overload_says_nothing_of_a_version(routed):
    given, _ = publish(routed)
    exchange = routed.begin("/m/predict")
    given.answer(error="DeadlineExceeded")
    routed.answer()

    assert exchange.response.status == 504
    assert results(routed) == {"dropped": 1}


def test_a_copy_that_streams_is_dropped(routed):
    given, copied = publish(routed)
    routed.begin("/m/predict")
    routed.loop.run()
    (task,) = copied.tasks
    from servekit.extension import HttpResponse
    from servekit.extension.http import NO_LENGTH

    writer = task.exchange.begin_stream(None, HttpResponse(200, length=NO_LENGTH))
    given.answer()

    assert (writer.write(b"piece"), writer.is_waiting) == (True, False)
    assert (task.is_cancelled or task.is_done, results(routed)) == (True, {"dropped": 1})


@pytest.mark.parametrize("rules", [{"mirror": ""}, {"mirror": "1"}, {"mirror": "3"}])
def test_without_a_version_to_mirror_to_routes_are_plain(routed, rules):
    publish(routed, **rules)

    assert routed.find("/m/predict") is routed.find("/m/versions/1/predict")


def test_a_shadow_without_a_worker_gets_no_copies(routed):
    publish(routed, state="backoff")

    assert routed.find("/m/predict") is routed.find("/m/versions/1/predict")


def test_paths_of_versions_are_not_mirrored(routed):
    publish(routed)
    routed.ask("/m/versions/1/predict")

    assert results(routed) == {}


def test_what_the_weights_choose_is_copied_too(routed):
    row = version_row("1", versions=[version_row("2", 1), version_row("3", 2)])
    row.traffic = TrafficRow(weights={"1": 1, "2": 1}, mirror="3")
    routed.publish(row)
    seen = {routed.ask("/m/predict")[0] for _ in range(4)}

    assert seen == {"1", "2"}
    assert results(routed, "3") == {"other_body": 4}


def test_a_path_that_the_shadow_lacks_is_not_copied(routed):
    size = RouteRow("/m/size", [StepRow(stage="predict", target="size")])
    row = version_row("1", routes=[size], versions=[version_row("2", 1)])
    row.traffic = TrafficRow(mirror="2")
    routed.publish(row)

    assert routed.find("/m/size") is routed.find("/m/versions/1/size")
    assert routed.find("/m/predict") is not routed.find("/m/versions/1/predict")

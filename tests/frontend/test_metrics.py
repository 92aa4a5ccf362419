# SPDX-License-Identifier: Apache-2.0
"""What is counted is what /metrics adds up."""

import os
from bisect import bisect_left
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from servekit.frontend.batching.batch_slot import answer_batch
from servekit.frontend.batching.replies import count_stages
from servekit.frontend.batching.task_route import make_task
from servekit.frontend.metrics import counters as metrics
from servekit.frontend.metrics.counters import ModelMetrics
from servekit.frontend.metrics.exemplars import Exemplars
from servekit.frontend.metrics.families import collect
from servekit.frontend.metrics.known import MAX_GONE, KnownMetrics
from servekit.ipc.batches import Item, MethodCall, Reply
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.model_counters import DURATIONS, PLACES, Label, read_version, read_versions

A = (Label("a", "1"),)


@pytest.fixture
def counters():
    found = Counters(create_memory())
    yield found
    os.close(found.descriptor)


def counting(counters, model="a"):
    """Return what the next front-end counts in."""
    return ModelMetrics(counters.share(counters.give()), Label(model, "1"))


def note(counted, size, queue_s=0.002, decode_s=0.0001, predict_s=0.02, encode_s=0.03, ipc_s=0.0):
    counted.answered += size
    counted.batches += (size, queue_s, decode_s, predict_s, encode_s, ipc_s)


def scrape(counters, shown=A):
    registry = CollectorRegistry()
    registry.register(Mock(spec=["collect"], collect=lambda: collect(counters, shown)))
    return generate_latest(registry).decode()


def test_batches_and_statuses_are_counted(counters):
    counted = counting(counters)
    note(counted, 3)
    counted.left += ["full", "worker_idle", "full"]
    assert 'servekit_batch_size_sum{model="a",version="1"} 0.0' in scrape(counters)
    counted.settle()
    counted.count_status(504)
    counted.count_drop("expired")
    counted.values[metrics.OK] += 3
    text = scrape(counters)

    for line in (
        'servekit_batch_size_bucket{le="2.0",model="a",version="1"} 0.0',
        'servekit_batch_size_bucket{le="4.0",model="a",version="1"} 1.0',
        'servekit_batch_size_sum{model="a",version="1"} 3.0',
        'servekit_decode_duration_seconds_bucket{le="0.0001",model="a",version="1"} 1.0',
        'servekit_encode_duration_seconds_bucket{le="0.025",model="a",version="1"} 0.0',
        'servekit_encode_duration_seconds_bucket{le="0.1",model="a",version="1"} 1.0',
        'servekit_ipc_duration_seconds_sum{model="a",version="1"} 0.0',
        'servekit_batches_total{model="a",reason="full",version="1"} 2.0',
        'servekit_batches_total{model="a",reason="worker_idle",version="1"} 1.0',
        'servekit_predict_duration_seconds_bucket{le="+Inf",model="a",version="1"} 1.0',
        'servekit_requests_total{model="a",status="200",version="1"} 3.0',
        'servekit_requests_total{model="a",status="504",version="1"} 1.0',
        'servekit_tasks_dropped_total{model="a",reason="expired",version="1"} 1.0',
    ):
        assert line in text


def test_front_ends_are_added_up_and_what_is_gone_queues_nothing(counters):
    for _ in range(2):
        counted = counting(counters)
        counted.set_tasks(5, 3)
        counted.count_status(429)
    text = scrape(counters)
    counters.merge(2)
    after = scrape(counters)

    for said in (text, after):
        assert 'servekit_requests_total{model="a",status="429",version="1"} 2.0' in said
    assert 'servekit_tasks_waiting{model="a",version="1"} 10.0' in text
    assert 'servekit_tasks_running{model="a",version="1"} 6.0' in text
    assert 'servekit_tasks_waiting{model="a",version="1"} 5.0' in after
    assert 'servekit_tasks_running{model="a",version="1"} 3.0' in after


def test_a_front_end_that_is_just_starting_has_counted_nothing(counters):
    counting(counters).count_status(429)
    counters.give()

    assert 'servekit_requests_total{model="a",status="429",version="1"} 1.0' in scrape(counters)


@pytest.mark.parametrize("status", [100, 201, 226, 299, 302, 418, 451, 511, 599])
def test_each_status_is_counted_as_itself(counters, status):
    counted = counting(counters)
    before = scrape(counters)
    counted.count_status(status)

    assert f'status="{status}"' not in before
    assert f'servekit_requests_total{{model="a",status="{status}",version="1"}} 1.0' in scrape(
        counters
    )


@pytest.mark.parametrize("status", [0, 99, 600, -1, 10**9])
def test_what_is_no_status_is_counted_as_500(counters, status):
    counting(counters).count_status(status)

    assert 'servekit_requests_total{model="a",status="500",version="1"} 1.0' in scrape(counters)


def test_no_front_end_no_series(counters):
    assert 'model="' not in scrape(counters)


def test_stages_of_one_worker_are_counted_with_their_own_tasks():
    seen = []

    def counters(name):
        return SimpleNamespace(
            observe_step=lambda size, step_s: seen.append((name, size, step_s)),
            observe_queue=lambda queue_s: seen.append((name, queue_s)),
        )

    colocated = {name: counters(name) for name in ("before", "idle")}
    host = SimpleNamespace(
        metrics=counters("host"),
        colocated=colocated,
        row=SimpleNamespace(stage="host"),
    )
    led, alone = (
        SimpleNamespace(owner=host, item=Item(b"", b"", b"", "", 1.0, None, calls))
        for calls in ((MethodCall("before"), MethodCall("host")), (MethodCall("before"),))
    )
    count_stages([led, alone, alone], 0.5, {"before": 0.1, "host": 0.2})
    count_stages([alone], 0.5, {"before": 0.3})

    assert seen == [
        *(("host", 0.5), ("before", 3, 0.1), ("host", 1, 0.2)),
        *(("host", 0.5), ("before", 1, 0.3)),
    ]


@pytest.mark.parametrize("size", [1, 3])
def test_each_answer_of_a_batch_is_counted_by_its_status(counters, size):
    owner = SimpleNamespace(metrics=counting(counters), colocated={}, tracer=None)
    client = SimpleNamespace(respond=lambda _: None, fail=lambda *_: None)
    tasks = [make_task(owner, client, Item(b"", b"", b"", "", 9.0), 0.0) for _ in range(3 * size)]
    answers = [("", "text/plain", b""), ("", "text/plain", b""), ("InputError", "", b"{}")] * size
    own = {3 * at + 1: (201, []) for at in range(size)}
    answer_batch(tasks, Reply(1, answers, 0.0, 0.0, 0.0, responses=own), 0.5, 1.0, None)
    text = scrape(counters)

    assert owner.metrics.answered_at == 1.0
    for status in (200, 201, 422):
        assert (
            f'servekit_requests_total{{model="a",status="{status}",version="1"}} {size}.0' in text
        )
    assert f'servekit_request_duration_seconds_count{{model="a",version="1"}} {2 * size}.0' in text
    assert f'servekit_request_duration_seconds_sum{{model="a",version="1"}} {2 * size}.0' in text


def test_the_requests_of_one_version_are_read_from_those_of_its_stages(counters):
    share = counters.share(counters.give())
    for name, version, status in (
        *(("a", "1", 500), ("a:x", "1", 200), ("a", "2", 200)),
        *(("ab", "1", 200), ("a:y", "1", 200)),
    ):
        ModelMetrics(share, Label(name, version)).observe_response(status, 0.02)
    ModelMetrics(share, Label("a:z", "1")).set_tasks(2, 3)
    found = read_version(counters, "a", "1")

    assert found.statuses == {200: 2, 500: 1}
    assert found.durations[DURATIONS.index(0.025)] == sum(found.durations) == 3
    assert (found.waiting, found.running) == (2, 3)
    assert read_versions(counters) == {
        key: read_version(counters, *key) for key in (("a", "1"), ("a", "2"), ("ab", "1"))
    }


def test_a_version_knows_how_long_its_parts_and_its_errors_took(counters):
    counted = counting(counters)
    note(counted, 3, decode_s=0.25, encode_s=0.5)
    counted.settle()
    counted.count_failure(504, 2.5)
    counted.count_failure(422, 0.5)
    found = read_version(counters, "a", "1")

    assert (found.statuses, found.failed_s) == ({422: 1, 504: 1}, 3.0)
    assert (found.stages[""].decode_s, found.stages[""].encode_s) == (0.25, 0.5)


def test_a_version_that_has_counted_nothing_is_all_zero(counters):
    found = read_version(counters, "a", "1")

    assert found == ({}, [0] * (len(DURATIONS) + 1), 0, 0, {}, 0.0, 0.0, 0.0)


def test_of_the_last_batches_of_front_ends_and_stages_the_latest_is_told(counters, monkeypatch):
    monkeypatch.setattr(metrics, "time", lambda: 5000.0)
    monkeypatch.setattr(metrics, "monotonic", lambda: 100.0)
    for model, answered_at in (("a", 70.0), ("a", 90.0), ("a:x", 95.0), ("b", 99.0)):
        counted = counting(counters, model)
        counted.answered_at = answered_at
        counted.settle()
        counted.settle()
    counters.merge(2)

    assert read_version(counters, "a", "1").last_batch_at == 4995.0


def test_versions_that_went_long_ago_have_no_series(counters):
    known = KnownMetrics(counters.share(counters.give()))
    for number in range(3 * MAX_GONE):
        label = Label("a", str(number))
        known.find(label).count_status(500 if number else 404)
        known.keep({("a", label.version)})

    assert len(known) == MAX_GONE + 1
    assert Label("a", "0") not in known
    assert Label("a", str(number - MAX_GONE)) in known
    text = scrape(counters, known)
    assert text.count('status="500"') == len(known)
    assert 'status="404",version="0"' not in text


def test_a_version_that_comes_back_soon_continues_its_series(counters):
    known = KnownMetrics(counters.share(counters.give()))
    first = known.find(Label("a", "1"))
    first.count_status(500)
    known.keep(())
    known.keep({("a", "1")})
    known.find(Label("a", "1")).count_status(500)

    assert 'servekit_requests_total{model="a",status="500",version="1"} 2.0' in scrape(counters)


def test_calls_of_predict_are_counted_with_their_rows(counters):
    counted = counting(counters)
    note(counted, 1)
    counted.settle()
    counted.observe_calls([8, 8, 4], 0.002, 0.3)
    counted.observe_successes([0.4, 0.5])
    text = scrape(counters)

    for line in (
        'servekit_batch_size_count{model="a",version="1"} 4.0',
        'servekit_batch_size_sum{model="a",version="1"} 21.0',
        'servekit_predict_duration_seconds_bucket{le="0.1",model="a",version="1"} 4.0',
        'servekit_queue_duration_seconds_count{model="a",version="1"} 2.0',
        'servekit_requests_total{model="a",status="200",version="1"} 2.0',
    ):
        assert line in text


def test_the_newest_sampled_request_of_a_bucket_is_its_exemplar(counters):
    counted, exemplars = counting(counters), Exemplars()
    counted.observe_response(200, 0.02)
    for number, duration_s in enumerate((0.02, 0.021, 3.0)):
        exemplars.note("a", "1", duration_s, f"00-{number:032x}-{1:016x}-01")
    exemplars.note("b", "1", 0.02, f"00-{'b' * 32}-{1:016x}-01")
    registry = CollectorRegistry()
    registry.register(Mock(spec=["collect"], collect=lambda: collect(counters, A, exemplars)))
    text = openmetrics(registry).decode()
    bucket = 'servekit_request_duration_seconds_bucket{le="0.025",model="a",version="1"} 1.0'
    (line,) = [each for each in text.splitlines() if " # " in each and each[0] != "#"]

    assert line.startswith(f'{bucket} # {{trace_id="{1:032x}"}} 0.021 1')
    assert " # " not in generate_latest(registry).decode().replace("# HELP", "").split(bucket)[1]
    exemplars.keep({("b", "1")})
    assert not exemplars.of("a", "1")
    assert exemplars.of("b", "1")


@pytest.mark.parametrize("count", [1, 2, 500])
def test_batches_are_counted_together_as_they_would_be_one_by_one(counters, count):
    counted, alone = counting(counters), [0] * (len(DURATIONS) + 1)
    durations = [(0.00007 * number**2) % 70 for number in range(count - 1)] + [DURATIONS[4]]
    for predict_s in durations:
        note(counted, 1, predict_s=predict_s)
        alone[bisect_left(DURATIONS, predict_s)] += 1
    counted.settle()
    start = PLACES["predict_duration_seconds"]

    assert list(counted.values[start : start + len(alone)]) == alone
    assert counted.values[start + len(alone)] == pytest.approx(sum(durations))


def test_batches_are_counted_within_a_second_or_when_there_are_many(counters):
    counted = counting(counters)
    for sweep in range(metrics.MOST_SWEEPS):
        note(counted, 1)
        counted.set_tasks(0, 0)
        assert bool(counted.batches) == (sweep < metrics.MOST_SWEEPS - 1)
    for _ in range(metrics.MANY):
        note(counted, 1)
    counted.set_tasks(0, 0)

    assert not counted.batches
    assert counted.answered == metrics.MOST_SWEEPS + metrics.MANY


def test_the_interval_of_outputs_that_come_together_is_shared_among_them(counters):
    counted = counting(counters)
    counted.count_outputs(5)
    counted.observe_outputs(4, 0.2)
    text = scrape(counters)

    for line in (
        'servekit_output_interval_seconds_bucket{le="0.025",model="a",version="1"} 0.0',
        'servekit_output_interval_seconds_bucket{le="0.05",model="a",version="1"} 4.0',
        'servekit_output_interval_seconds_sum{model="a",version="1"} 0.2',
    ):
        assert line in text

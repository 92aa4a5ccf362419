# SPDX-License-Identifier: Apache-2.0
"""A service's own metrics, from the worker's memory to the exposition."""

import struct
import threading

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from servekit.frontend.metrics.service import own_metrics
from servekit.ipc.metric_memory import SIZE
from servekit.service.metrics import MAX_SERIES, Metrics

OWN = {"model": "digits", "replica": "0"}


class Workers:
    """A collector over the memory of some workers."""

    def __init__(self, *workers):
        self.workers = workers

    def collect(self):
        return own_metrics(self.workers)


def exposition(*workers):
    """Return every sample as a scrape shows it."""
    registry = CollectorRegistry()
    registry.register(Workers(*workers))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return [
        (sample.name, sample.labels, sample.value)
        for family in families
        for sample in family.samples
    ]


def test_each_kind_is_shown_with_model_and_replica():
    metrics = Metrics()
    metrics.counter("tokens", "Tokens made").inc(3)
    metrics.gauge("slots", "Slots in use", labels=["kind"]).set(2, kind="busy")
    histogram = metrics.histogram("sizes", "Sizes", buckets=[1, 2.5])
    for value in (1, 2, 9):
        histogram.observe(value)

    assert exposition((OWN, metrics.memory)) == [
        ("servekit_model_tokens_total", OWN, 3),
        ("servekit_model_slots", OWN | {"kind": "busy"}, 2),
        ("servekit_model_sizes_bucket", OWN | {"le": "1.0"}, 1),
        ("servekit_model_sizes_bucket", OWN | {"le": "2.5"}, 2),
        ("servekit_model_sizes_bucket", OWN | {"le": "+Inf"}, 3),
        ("servekit_model_sizes_count", OWN, 3),
        ("servekit_model_sizes_sum", OWN, 12),
    ]


def test_label_values_are_bounded():
    metrics = Metrics()
    counter = metrics.counter("users", "Requests by user", labels=["user"])
    for number in range(MAX_SERIES + 50):
        counter.inc(user=number)

    shown = exposition((OWN, metrics.memory))
    assert len(shown) == MAX_SERIES + 1
    assert ("servekit_model_users_total", OWN | {"user": "other"}, 50) in shown


def test_full_memory_loses_labels_and_no_counts():
    metrics = Metrics()
    bounds = range(1, 2000)
    histograms = [
        metrics.histogram(f"h{number}", "Many buckets", ["k"], bounds) for number in range(4)
    ]
    for histogram in histograms:
        for number in range(50):
            histogram.observe(1, k=number)

    counts = [
        value for name, _, value in exposition((OWN, metrics.memory)) if name.endswith("_count")
    ]
    assert sum(counts) == 200
    assert len(counts) < 200


def test_metrics_without_room_are_refused():
    metrics = Metrics()
    metrics.histogram("a", "Most of it", buckets=range(1, 15_000))

    with pytest.raises(ValueError, match="no room"):
        metrics.histogram("b", "More", buckets=range(1, 15_000))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda m: m.counter("Tokens", ""), id="a name with a capital"),
        pytest.param(lambda m: m.counter("tokens_total", ""), id="a suffix of the format's own"),
        pytest.param(lambda m: m.counter("a", "", ["model"]), id="a label that is the server's"),
        pytest.param(lambda m: m.counter("a", "", "kind"), id="labels that are one text"),
        pytest.param(lambda m: (m.counter("a", ""), m.gauge("a", "")), id="a name twice"),
        pytest.param(lambda m: m.histogram("a", "", buckets=[2, 1]), id="buckets that descend"),
        pytest.param(lambda m: m.counter("a", "").inc(-1), id="a counter that goes down"),
        pytest.param(lambda m: m.counter("a", "", ["b"]).inc(), id="a label that is missing"),
        pytest.param(lambda m: m.counter("a", "").inc(b=1), id="a label that is not known"),
    ],
)
def test_mistakes_are_told(make):
    with pytest.raises(ValueError, match=r"."):
        make(Metrics())


def test_metrics_are_made_in_load():
    metrics = Metrics()
    metrics.seal()

    with pytest.raises(RuntimeError, match=r"create metrics in load\(\)"):
        metrics.counter("late", "")


def test_threads_lose_no_count():
    metrics = Metrics()
    counter = metrics.counter("a", "")
    threads = [
        threading.Thread(target=lambda: [counter.inc() for _ in range(5000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert exposition((OWN, metrics.memory)) == [("servekit_model_a_total", OWN, 20_000)]


def test_two_workers_and_two_models_share_a_family():
    workers = []
    for number in range(2):
        metrics = Metrics()
        metrics.counter("tokens", "Tokens").inc(number + 1)
        workers.append((OWN | {"replica": str(number)}, metrics.memory))

    assert [value for _, _, value in exposition(*workers)] == [1, 2]


def test_of_two_kinds_under_one_name_the_first_is_shown():
    first, second = Metrics(), Metrics()
    first.counter("a", "").inc()
    second.gauge("a", "").set(5)
    second.gauge("b", "").set(6)

    shown = exposition((OWN, first.memory), ({"model": "other", "replica": "0"}, second.memory))
    assert [value for _, _, value in shown] == [1, 6]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda memory: memory.__setitem__(slice(8), b"\xff" * 8), id="its end"),
        pytest.param(lambda memory: memory.__setitem__(slice(8, 16), b"\xff" * 8), id="a size"),
        pytest.param(lambda memory: memory.__setitem__(slice(16, 24), b"\xc1" * 8), id="a text"),
        pytest.param(lambda memory: struct.pack_into("=II", memory, 8, 0, 0), id="nothing"),
    ],
)
def test_a_worker_that_writes_nonsense_shows_nothing_worse(spoil):
    metrics = Metrics()
    metrics.counter("a", "A").inc()
    memory = memoryview(bytearray(metrics.memory))
    spoil(memory)

    assert len(memory) == SIZE
    assert exposition((OWN, memory)) in ([], [("servekit_model_a_total", OWN, 1)])


def test_no_series_is_shown_twice():
    metrics = Metrics()
    metrics.counter("a", "").inc()

    assert len(exposition((OWN, metrics.memory), (OWN, metrics.memory))) == 1


def test_stages_of_one_worker_share_its_memory_and_keep_their_names():
    host = Metrics()
    other = host.colocated("format")
    assert (host.descriptor, other.descriptor) == (None, None)
    other.counter("tokens", "Tokens made", labels=["kind"]).inc(2, kind="long")
    host.counter("tokens", "Tokens made").inc(3)
    own = OWN | {"stage": "infer"}

    assert exposition((own, host.memory)) == [
        ("servekit_model_tokens_total", own | {"stage": "format", "kind": "long"}, 2),
        ("servekit_model_tokens_total", own, 3),
    ]

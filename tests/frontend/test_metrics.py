# SPDX-License-Identifier: Apache-2.0
"""What is counted is what /metrics adds up."""

from types import SimpleNamespace

from prometheus_client import CollectorRegistry, generate_latest

from servekit.frontend import metrics
from servekit.frontend.answering import observe_stages
from servekit.frontend.metrics import ModelMetrics, collect
from servekit.messages import RUN, STAGE


class Collector:
    def __init__(self, directory):
        self.directory = directory

    def collect(self):
        return collect(self.directory)


def scrape(directory):
    registry = CollectorRegistry()
    registry.register(Collector(directory))
    return generate_latest(registry).decode()


def test_batches_and_statuses_are_counted(tmp_path):
    counters = ModelMetrics(tmp_path, "a")
    counters.observe_batch(3, 0.002, 0.02)
    counters.count_status(504)
    counters.count_drop("expired")
    counters.values[metrics.OK] += 3
    text = scrape(tmp_path)

    for line in (
        'servekit_batch_size_bucket{le="2.0",model="a"} 0.0',
        'servekit_batch_size_bucket{le="4.0",model="a"} 1.0',
        'servekit_batch_size_sum{model="a"} 3.0',
        'servekit_predict_duration_seconds_bucket{le="+Inf",model="a"} 1.0',
        'servekit_requests_total{model="a",status="200"} 3.0',
        'servekit_requests_total{model="a",status="504"} 1.0',
        'servekit_tasks_dropped_total{model="a",reason="expired"} 1.0',
    ):
        assert line in text


def test_front_ends_are_added_up_and_dead_ones_queue_nothing(tmp_path):
    counters = ModelMetrics(tmp_path, "a")
    counters.set_waiting(5)
    counters.count_status(429)
    dead = tmp_path / f"{2**22 + 1}-a"  # no such pid
    dead.write_bytes((tmp_path / next(tmp_path.iterdir()).name).read_bytes())
    text = scrape(tmp_path)

    assert 'servekit_requests_total{model="a",status="429"} 2.0' in text
    assert 'servekit_tasks_waiting{model="a"} 5.0' in text


def test_a_front_end_that_is_just_starting_has_counted_nothing(tmp_path):
    ModelMetrics(tmp_path, "a").count_status(429)
    (tmp_path / "1-a").touch()  # made, and not given its size yet

    assert 'servekit_requests_total{model="a",status="429"} 1.0' in scrape(tmp_path)


def test_unknown_status_counts_as_500(tmp_path):
    ModelMetrics(tmp_path, "a").count_status(418)

    assert 'servekit_requests_total{model="a",status="500"} 1.0' in scrape(tmp_path)


def test_no_front_end_no_series(tmp_path):
    assert 'model="' not in scrape(tmp_path / "absent")


def test_stages_of_one_worker_are_counted_with_their_own_tasks():
    seen = []

    def counters(name):
        return SimpleNamespace(
            observe_step=lambda size, step_s: seen.append((name, size, step_s)),
            observe_queue=lambda queue_s: seen.append((name, queue_s)),
        )

    beside = {name: counters(name) for name in ("before", "idle")}
    host = SimpleNamespace(
        metrics=counters("host"),
        beside=beside,
        row=SimpleNamespace(stage="host"),
        target=f"before{STAGE}{RUN}host{STAGE}",
    )
    led = SimpleNamespace(batcher=host, step=None)
    alone = SimpleNamespace(batcher=host, step=SimpleNamespace(target=f"before{STAGE}"))
    observe_stages([led, alone, alone], 0.5, {"before": 0.1, "host": 0.2})
    observe_stages([alone], 0.5, {"before": 0.3})

    assert seen == [
        *(("host", 0.5), ("before", 3, 0.1), ("host", 1, 0.2)),
        *(("host", 0.5), ("before", 1, 0.3)),
    ]

# SPDX-License-Identifier: Apache-2.0
"""A collector gets the traces of a real server."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from servekit.testing import ServedModel

from .collector import grpc_collector, http_collector, values_of
from .models import ASYNC, STREAM, write_model, write_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
PATH = "POST /words/predict"


@contextmanager
def serving(*models, **variables):
    environment = {**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "100", **variables}
    with ServedModel(*models, environment=environment) as server:
        yield server.wait_ready()


def tree(spans):
    """Return the name of each span and of the one around it, in the order in which they began."""
    names = {each.span_id: each.name for each in spans}
    began = sorted(spans, key=lambda each: each.start_time_unix_nano)
    return [(each.name, names.get(each.parent_span_id, "")) for each in began]


def is_whole(*ids):
    """Return what is true of spans once all requests and their last parts have come."""
    return lambda spans: [each.name for each in spans].count("send") >= len(ids)


@pytest.mark.parametrize(
    ("protocol", "listen"), [("http/protobuf", http_collector), ("grpc", grpc_collector)]
)
def test_the_trace_of_a_pipeline_is_whole(tmp_path, protocol, listen):
    model = write_pipeline(tmp_path)
    with listen() as collector:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "SERVEKIT_PLUGIN_OTEL_SAMPLING": "0",
        }
        with serving(model, **variables) as server:
            body = server.post("/words/predict", b'"a b c"', headers={"traceparent": TRACEPARENT})
            server.post("/words/predict", b'"a b c"')
        spans = collector.wait_for(is_whole(1))

    assert {each.trace_id.hex() for each in spans} == {TRACE}
    pairs = [pair for pair in tree(spans) if pair != ("receive", PATH)]  # on a busy machine
    assert [pair for pair in pairs if pair[1] == ""] == [(PATH, "")]
    inside = {
        *((name, PATH) for name in ("queue", "ipc", "batch", "worker split", "worker count")),
        *(("predict", f"worker {stage}") for stage in ("split", "count")),
        *(("decode", f"worker {stage}") for stage in ("split", "count")),
        *(("encode", f"worker {stage}") for stage in ("split", "count")),
        *(("tokenize", "predict"), ("outer", "predict"), ("count", "outer"), ("rank", "predict")),
        *((PATH, ""), ("send", PATH)),
    }
    assert set(pairs) == inside
    by_name = {each.name: each for each in spans}
    assert by_name[PATH].parent_span_id.hex() == SPAN
    assert values_of(by_name["tokenize"]) == {"texts": 1, "servekit.stage": "split"}
    assert values_of(by_name["rank"])["servekit.stage"] == "rank"
    sent = body.json()["prediction"]["sent"]
    assert sent == f"00-{TRACE}-{by_name['count'].span_id.hex()}-01"
    for each in spans:
        whole = by_name[PATH]
        assert whole.start_time_unix_nano <= each.start_time_unix_nano + 1000
        assert each.end_time_unix_nano <= whole.end_time_unix_nano + 1000


def test_a_batch_has_links_to_all_of_its_members(tmp_path):
    model = write_pipeline(tmp_path, "{ max_batch_size = 4, max_delay_ms = 20_000 }")
    with http_collector() as collector:
        with (
            serving(model, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as server,
            ThreadPoolExecutor(4) as pool,
        ):
            ids = [f"{number:032x}" for number in range(1, 5)]
            headers = [{"traceparent": f"00-{each}-{SPAN}-01"} for each in ids]
            posted = [
                pool.submit(server.post, "/words/predict", b'"a b"', headers=each)
                for each in headers
            ]
            assert {each.result().status for each in posted} == {200}
        spans = collector.wait_for(is_whole(*ids))

    contexts = {(each.trace_id, each.span_id): each for each in spans}
    assert len(contexts) == len(spans)
    works = [each for each in spans if each.name == "worker count"]
    assert len(works) == 4
    for work in works:
        (link,) = work.links
        batch = contexts[link.trace_id, link.span_id]
        members = [contexts[each.trace_id, each.span_id] for each in batch.links]
        assert batch.name == "batch"
        assert {each.name for each in members} == {PATH}
        assert work.trace_id in {each.trace_id for each in members}
    batches = [each for each in spans if each.name == "batch"]
    sizes = [values_of(each)["servekit.batch.size"] for each in batches]
    assert sum(sizes) == 8
    assert max(sizes) > 1


@pytest.mark.parametrize(
    ("name", "code", "body", "inner"),
    [
        ("waits", ASYNC, b"1", {("wait", "predict"), ("inner", "wait")}),
        ("counts", STREAM, b"2", {("one", "predict")}),
    ],
)
def test_services_that_are_async_or_stream(tmp_path, name, code, body, inner):
    model = write_model(tmp_path, name, code)
    with http_collector() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with serving(model, SERVEKIT_PLUGIN_OTEL_SAMPLING="1", **variables) as server:
            server.post(f"/{name}/predict", body)
        spans = collector.wait_for(is_whole(1))

    assert inner <= set(tree(spans))
    assert ("predict", "worker") in tree(spans)


def test_the_share_of_the_requests_is_about_right_and_flags_are_respected(tmp_path):
    model = write_model(tmp_path, "waits", ASYNC)
    refused = f"00-{TRACE}-{SPAN}-00"
    with http_collector() as collector:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
        }
        with serving(model, **variables) as server:
            for _ in range(600):
                server.post("/waits/predict", b"1")
            for _ in range(50):
                server.post("/waits/predict", b"1", headers={"traceparent": refused})
        found = [each for each in collector.spans if each.name == "POST /waits/predict"]

    assert 100 <= len(found) <= 200  # 150 are expected, with a deviation of 11
    assert TRACE not in {each.trace_id.hex() for each in found}
    assert {each.parent_span_id for each in found} == {b""}
    assert len({each.trace_id for each in found}) == len(found)


def test_a_collector_that_does_not_answer_delays_no_request(tmp_path):
    model = write_model(tmp_path, "waits", ASYNC)
    with http_collector() as collector:
        collector.goes_on.clear()
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_MAX_QUEUE_SIZE": "512"}
        with serving(model, SERVEKIT_PLUGIN_OTEL_SAMPLING="1", **variables) as server:
            statuses = {server.post("/waits/predict", b"1").status for _ in range(200)}
            assert server.stop() == 0

    assert statuses == {200}


def test_without_a_collector_nothing_is_traced(tmp_path):
    model = write_pipeline(tmp_path)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    with ServedModel(model, environment=environment) as server:
        found = server.wait_ready().post("/words/predict", b'"a"').json()

    assert found["prediction"]["sent"] is None

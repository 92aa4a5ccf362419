# SPDX-License-Identifier: Apache-2.0
"""Events reach a collector over both protocols; one that is away or slow harms nothing."""

import logging
import socket
from time import monotonic

import pytest
from servekit_otel.exporting import TraceExport
from servekit_otel.settings import OtelSettings

from .collector import WAIT_S, grpc_collector, http_collector, values_of
from .events import EVENT, TRACES

NAMES = {
    *("POST /m/predict", "queue", "ipc", "worker", "batch", "decode", "predict", "tokenize"),
    *("GET", "encode", "send"),
}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    yield
    logging.getLogger("opentelemetry").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("protocol", "listen"), [("http/protobuf", http_collector), ("grpc", grpc_collector)]
)
def test_a_collector_gets_the_whole_trace(protocol, listen):
    with listen() as collector:
        settings = OtelSettings(
            endpoint=collector.url, protocol=protocol, headers={"X-Key": "k"}, service_name="mine"
        )
        export = TraceExport(settings)
        export.add(EVENT)
        spans = collector.wait_for(lambda found: len(found) >= len(NAMES))
        export.end()

    assert {each.name for each in spans} == NAMES
    assert {each.trace_id.hex() for each in spans} == {TRACES[0]}
    assert collector.headers["x-key"] == "k"
    assert collector.resource["service.name"] == "mine"
    (request,) = [each for each in spans if each.name == "POST /m/predict"]
    assert request.parent_span_id.hex() == "cccccccccccccccc"
    assert values_of(request)["http.response.status_code"] == 200


def test_the_end_exports_what_waits(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    with http_collector() as collector:
        export = TraceExport(OtelSettings(endpoint=collector.url))
        export.add(EVENT)
        export.end()

        assert len(collector.spans) == len(NAMES)


def test_without_a_collector_spans_are_counted_and_nothing_waits(caplog, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen
        export = TraceExport(OtelSettings(endpoint=f"http://127.0.0.1:{unused.getsockname()[1]}"))
        started = monotonic()
        for _ in range(100):
            export.add(EVENT)
        taken_s = monotonic() - started
        export.end()

    assert taken_s < WAIT_S  # a hundred exports that fail after a second take longer
    assert f"spans lost: {100 * len(NAMES)} that the collector did not take" in caplog.text


def test_a_slow_collector_makes_nothing_wait_and_the_oldest_spans_are_dropped(caplog, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "512")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "128")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # no export is given up
    with http_collector() as collector:
        collector.goes_on.clear()
        export = TraceExport(OtelSettings(endpoint=collector.url))
        started = monotonic()
        for _ in range(200):
            export.add(EVENT)
        taken_s = monotonic() - started
        collector.goes_on.set()
        export.end()

        total = 200 * len(NAMES)
        assert taken_s < WAIT_S  # as long as the collector holds the first export
        assert 512 - len(NAMES) < len(collector.spans) < total  # whole traces are dropped
        assert export.queue.dropped == total - len(collector.spans)
        assert "that waited too long" in caplog.text

# SPDX-License-Identifier: Apache-2.0
"""Traces of requests: which are slow, what a ``traceparent`` says, and how times become spans."""

import socket
from types import SimpleNamespace

import msgspec
import pytest

from servekit.extension import (
    BackgroundExchange,
    BaseExchange,
    HttpRequest,
    RequestTraced,
    TracedBatch,
)
from servekit.frontend.tracing.observer_port import ObserverPort
from servekit.frontend.tracing.slow import MOST, PERIOD_S, SlowRequests
from servekit.frontend.tracing.trace import BatchNote, RequestTrace, Visit
from servekit.frontend.tracing.traces import Traces
from servekit.ipc.spans import BatchTrace, RecordedSpan
from servekit.ipc.trace_context import TraceContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, OTHER = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
ROUTE = SimpleNamespace(row=SimpleNamespace(name="m", version="1"))


class Port:
    """Keeps what the observer would get."""

    def __init__(self):
        self.sent = []

    def send(self, *events):
        self.sent += events
        return True


class DirectExchange(BaseExchange):
    """An exchange in the clear, without a socket."""

    is_encrypted, subject = False, ""


def traced(duration_s):
    return RequestTraced(
        **dict.fromkeys(("request_id", "traceparent", "parent_span", "model", "version"), ""),
        **dict.fromkeys(("method", "path"), ""),
        time_s=0.0, status=200, reason="slow", duration_s=duration_s, spans=[], batches=[],
    )  # fmt: skip


def begin(traces, **headers):
    fields = {name.encode(): value.encode() for name, value in headers.items()}
    request = HttpRequest(b"POST", b"/m/predict?a=1", fields, b"1", True, "1.1", request_id="r")
    request.route = ROUTE
    exchange = DirectExchange(None)
    exchange.request = request
    return exchange, request


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(SAMPLED, (TRACE, SPAN, True), id="sampled"),
        pytest.param(OTHER, (TRACE, SPAN, False), id="not sampled"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01-more", (TRACE, SPAN, True), id="later version"),
        pytest.param(f"00-{TRACE}-{SPAN}-01-more", None, id="more than version 00 has"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", None, id="version ff"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", None, id="no trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", None, id="no span"),
        pytest.param(SAMPLED.upper(), None, id="upper case"),
        pytest.param("", None, id="empty"),
    ],
)
def test_traceparents(text, expected):
    found = TraceContext.parse(text)

    assert (found and (found.trace_id, found.span_id, found.is_sampled)) == expected
    if found is not None:
        assert TraceContext.parse(str(found.child())).trace_id == TRACE


def test_the_slowest_of_a_period_are_kept():
    slow = SlowRequests()
    for duration_s in range(100, 0, -1):
        slow.add(traced(float(duration_s)))
    kept = [each.duration_s for each in slow.take()]

    assert kept == [float(each) for each in range(100, 100 - MOST, -1)]
    assert slow.limit_s == 100.0 - MOST + 1
    assert slow.take() == []


def test_each_second_sends_few_and_only_slower_ones():
    slow = SlowRequests()
    for duration_s in range(1000):
        slow.add(traced(float(duration_s)))
    first = slow.take()
    slow.add(traced(5.0))
    slow.add(traced(5000.0))

    assert [each.duration_s for each in first] == [float(each) for each in range(992, 1000)]
    assert [each.duration_s for each in slow.take()] == [5000.0]


def test_a_period_is_forgotten():
    slow = SlowRequests()
    slow.renew(100.0)
    for duration_s in range(MOST):
        slow.add(traced(1.0 + duration_s))
    slow.renew(100.0 + PERIOD_S - 0.1)
    before = slow.limit_s
    slow.renew(100.0 + PERIOD_S)

    assert (before, slow.limit_s) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("share", "headers", "is_traced"),
    [
        pytest.param(None, {"traceparent": SAMPLED}, False, id="no plugin samples"),
        pytest.param(0.0, {}, False, id="share of 0"),
        pytest.param(1.0, {}, True, id="share of 1"),
        pytest.param(0.0, {"traceparent": SAMPLED}, True, id="client says sampled"),
        pytest.param(1.0, {"traceparent": OTHER}, False, id="client says not sampled"),
        pytest.param(1.0, {"traceparent": "?"}, True, id="traceparent is malformed"),
    ],
)
def test_sampling(share, headers, is_traced):
    port = Port()
    traces = Traces(port)
    traces.share = share
    exchange, request = begin(traces, **headers)
    traces.sample(exchange, request)
    exchange.observe_end(200, 1)
    traces.send()

    assert bool(port.sent) == is_traced
    if is_traced:
        (event,) = port.sent
        assert (event.reason, event.status, event.path) == ("sampled", 200, "/m/predict")
        assert request.headers[b"traceparent"].decode() == event.traceparent
        assert event.parent_span == (SPAN if headers.get("traceparent") == SAMPLED else "")
    assert traces.live == 0


def test_a_trace_ends_once_and_what_is_not_a_prediction_is_dropped():
    port = Port()
    traces = Traces(port)
    traces.share = 1.0
    for route in (ROUTE, None):
        exchange, request = begin(traces)
        request.route = route
        traces.sample(exchange, request)
        trace = exchange.trace
        exchange.observe_end(None, 0)
        trace.finish()

    traces.send()

    assert [event.status for event in port.sent] == [0]
    assert traces.live == 0


def test_times_become_spans_in_order():
    traces = Traces(Port())
    exchange, request = begin(traces)
    request.began = 10.0
    trace = RequestTrace(traces, exchange, request, 11.0)
    shown = TracedBatch(
        id="b", stage="", replica=0, pid=1, size=2, request_ids=["r"], traceparents=[]
    )
    note = BatchNote(shown, 12.0, 14.0, (0.25, 0.5, 0.25), {"a": 0.1, "b": 0.4})
    trace.visit(Visit(11.5, 14.0, note))
    trace.visit(Visit(14.0, 14.5, None))
    event = trace.event("slow", 15.0)

    assert [
        (s.name, s.stage, round(s.start_s, 6), round(s.duration_s, 6)) for s in event.spans
    ] == [
        ("receive", "", 0.0, 1.0),
        ("queue", "", 1.5, 0.5),
        ("ipc", "", 2.0, 1.0),
        ("decode", "", 3.0, 0.25),
        ("predict", "a", 3.25, 0.1),
        ("predict", "b", 3.35, 0.4),
        ("encode", "", 3.75, 0.25),
        ("queue", "", 4.0, 0.5),
    ]
    assert [span.batch for span in event.spans] == [-1, 0, 0, 0, 0, 0, 0, -1]
    assert (event.duration_s, event.batches) == (5.0, [shown])


def test_what_a_worker_has_recorded_says_when_it_began():
    traces = Traces(Port())
    exchange, request = begin(traces)
    request.began = 10.0
    trace = RequestTrace(traces, exchange, request, 10.0)
    shown = TracedBatch(
        id="b", stage="s", replica=0, pid=1, size=2, request_ids=["r"], traceparents=[SAMPLED],
        span="1" * 16,
    )  # fmt: skip
    spans = [RecordedSpan("2" * 16, "1" * 16, "tokenize", 11.5, 0.25, {"tokens": 3})]
    recorded = BatchTrace("1" * 16, 11.25, spans)
    note = BatchNote(shown, 11.0, 13.0, (0.25, 0.5, 0.25), {}, recorded)
    for _element in range(2):
        trace.visit(Visit(10.5, 13.0, note))
    event = trace.event("sampled", 13.0)

    starts = {(span.name, span.start_s, span.duration_s) for span in event.spans}
    assert {("ipc", 1.0, 0.25), ("decode", 1.25, 0.25), ("ipc", 2.25, 0.75)} <= starts
    (found,) = [span for span in event.spans if span.id]
    assert (found.name, found.stage, found.start_s, found.batch) == ("tokenize", "s", 1.5, 0)
    assert (found.id, found.parent, found.attributes) == ("2" * 16, "1" * 16, {"tokens": 3})


def test_many_events_are_one_message_and_large_ones_go_alone(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "observer.sock"))
        listener.listen()
        port = ObserverPort(tmp_path / "observer.sock")
        small, large = traced(1.0), msgspec.structs.replace(traced(1.0), body=b"x" * 150_000)
        assert port.send(small, small)
        with listener.accept()[0] as observer:
            observer.settimeout(10)
            together = msgspec.msgpack.decode(observer.recv(1 << 20))
            port.send(large, large)  # the kernel takes no message of 300,000 bytes
            alone = msgspec.msgpack.decode(observer.recv(1 << 20))
        port.close()

    assert (len(together), len(alone)) == (2, 1)


@pytest.mark.parametrize(
    ("limit", "body"),
    [
        pytest.param(0, None, id="none is kept"),
        pytest.param(1, b"1", id="as large as the limit"),
        pytest.param(8, b"1", id="smaller"),
    ],
)
def test_bodies_are_kept_only_up_to_the_size_that_the_operator_names(limit, body):
    port = Port()
    traces = Traces(port, limit)
    traces.share = 1.0
    exchange, request = begin(traces)
    traces.sample(exchange, request)
    exchange.observe_end(200, 1)
    traces.send()

    assert [event.body for event in port.sent] == [body]


def test_a_job_has_a_trace_after_its_client_has_left():
    traces = Traces(Port())
    client, request = begin(traces)
    RequestTrace(traces, client, request, 1.0)
    job = BackgroundExchange(client)
    before = job.trace
    job.leave(lambda _response: None)

    assert (before, job.trace, job.request) == (client.trace, None, request)

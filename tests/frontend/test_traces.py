# SPDX-License-Identifier: Apache-2.0
"""Traces of requests: which are slow, what a ``traceparent`` says, and how times become spans."""

import os
import socket
from time import monotonic
from types import SimpleNamespace

import msgspec
import pytest

from servekit.extension import BackgroundExchange, BaseExchange, HttpRequest, TraceSampling
from servekit.frontend.metrics.trace_counts import TraceCounts, traced
from servekit.frontend.tracing.observer_port import MessageTooLarge, ObserverPort
from servekit.frontend.tracing.sampler import HELD_S
from servekit.frontend.tracing.slow import MAX_KEPT, PERIOD_S, SlowRequests
from servekit.frontend.tracing.trace import RequestTrace
from servekit.frontend.tracing.traces import Traces, message_of
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.spans import BatchTrace, RecordedSpan
from servekit.ipc.trace_context import TraceContext, new_traceparent
from servekit.ipc.trace_notes import BatchNote, TraceNotes
from servekit.observer.traces import events_of, traced_batch

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, OTHER = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
ROUTE = SimpleNamespace(row=SimpleNamespace(name="m", version="1"))


class Port:
    """Keeps what the observer would get."""

    def __init__(self):
        self.sent = []
        self.takes = True

    def send(self, message):
        if self.takes:
            self.sent += events_of(message)
        return self.takes


class DirectExchange(BaseExchange):
    """An exchange in the clear, without a socket."""

    is_encrypted, subject = False, ""


def event_of(trace, now):
    """Return the event of *trace*, which ends *now*, after the way to the observer."""
    sent = msgspec.msgpack.encode(message_of([trace.finished(now)]))
    (event,) = events_of(msgspec.msgpack.decode(sent, type=TraceNotes))
    return event


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
        slow.add(float(duration_s), float(duration_s))
    kept = slow.take()

    assert kept == [float(each) for each in range(100, 100 - MAX_KEPT, -1)]
    assert slow.limit_s == 100.0 - MAX_KEPT + 1
    assert slow.take() == []


def test_each_second_sends_few_and_only_slower_ones():
    slow = SlowRequests()
    for duration_s in range(1000):
        slow.add(float(duration_s), float(duration_s))
    first = slow.take()
    slow.add(5.0, 5.0)
    slow.add(5000.0, 5000.0)

    assert first == [float(each) for each in range(992, 1000)]
    assert slow.take() == [5000.0]


def test_a_period_is_forgotten():
    slow = SlowRequests()
    slow.renew(100.0)
    for duration_s in range(MAX_KEPT):
        slow.add(1.0 + duration_s, None)
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
    if share is not None:
        traces.sample_by(TraceSampling(share=share))
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


def numbers(counts):
    sent, dropped, limited = counts.numbers
    return {"sent": sent, "dropped": dropped, "limited": limited}


@pytest.mark.parametrize(
    ("share", "given", "is_traced", "flags"),
    [
        pytest.param(0.0, SAMPLED, False, "00", id="none, and the flag goes no further"),
        pytest.param(0.0, OTHER, False, "00", id="none"),
        pytest.param(1.0, OTHER, True, "01", id="all, whatever the client says"),
        pytest.param(1.0, SAMPLED, True, "01", id="all"),
    ],
)
def test_a_plugin_may_leave_the_flags_of_clients_aside(share, given, is_traced, flags):
    port = Port()
    traces = Traces(port)
    traces.sample_by(TraceSampling(share=share, follows_clients=False))
    exchange, request = begin(traces, traceparent=given)
    traces.sample(exchange, request)
    exchange.observe_end(200, 1)
    traces.send()
    version, trace_id, _, found = request.headers[b"traceparent"].decode().split("-")

    assert bool(port.sent) == is_traced
    assert (version, trace_id, found) == ("00", TRACE, flags)


def test_no_more_traces_begin_than_a_plugin_wants_in_a_second():
    port, counts = Port(), TraceCounts()
    traces = Traces(port, counts=counts)
    traces.sample_by(TraceSampling(share=1.0, per_second=10.0))
    traces.sweep(100.0)
    found = []
    for now in (100.125, 100.25, 100.5):
        for _ in range(20):
            exchange, request = begin(traces)
            traces.sample(exchange, request)
            exchange.observe_end(200, 1)
        traces.sweep(now)
        found.append(len(port.sent))
    exchange, request = begin(traces, traceparent=SAMPLED)
    traces.sample(exchange, request)
    exchange.observe_end(200, 1)
    traces.send()

    assert found == [10, 11, 12]
    assert len(port.sent) == 13  # a client has asked for the last one
    assert numbers(counts) == {"sent": 13, "dropped": 0, "limited": 48}


def test_an_observer_that_does_not_keep_up_gets_fewer_traces():
    port, counts = Port(), TraceCounts()
    traces = Traces(port, counts=counts)
    traces.sample_by(TraceSampling(share=1.0))
    found = []
    for port.takes in (False, True, True):
        exchange, request = begin(traces)
        traces.sample(exchange, request)
        exchange.observe_end(200, 1)
        traces.send()
        found.append(numbers(counts))
        traces.sweep(monotonic() + HELD_S * len(found) / 2)

    assert found == [
        {"sent": 0, "dropped": 1, "limited": 0},
        {"sent": 0, "dropped": 2, "limited": 0},  # it has not begun
        {"sent": 1, "dropped": 2, "limited": 0},
    ]


def test_traces_of_all_front_ends_are_counted():
    counters = Counters(create_memory())
    for number in range(3):
        TraceCounts(counters.share(counters.give())).count("dropped", number)
    (family,) = traced(counters)
    os.close(counters.descriptor)

    values = {each.labels["result"]: each.value for each in family.samples}
    assert values == {"sent": 0, "dropped": 3, "limited": 0}


def test_a_trace_ends_once_and_what_is_not_a_prediction_is_dropped():
    port = Port()
    traces = Traces(port)
    traces.sample_by(TraceSampling(share=1.0))
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
    steps = {"a": 0.1, "b": 0.4}
    note = BatchNote("w", 5, "", 0, 1, 2, ["r"], [], 12.0, 14.0, (0.25, 0.5, 0.25), steps)
    trace.visit((11.5, 14.0, note))
    trace.visit((14.0, 14.5, None))
    event = event_of(trace, 15.0)

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
    assert (event.duration_s, event.batches) == (5.0, [traced_batch(note)])
    assert (event.batches[0].id, event.reason) == ("w-5", "slow")


def test_what_a_worker_has_recorded_says_when_it_began():
    traces = Traces(Port())
    exchange, request = begin(traces)
    request.began = 10.0
    trace = RequestTrace(traces, exchange, request, 10.0)
    spans = [RecordedSpan("2" * 16, "1" * 16, "tokenize", 11.5, 0.25, {"tokens": 3})]
    recorded = BatchTrace("1" * 16, 11.25, spans)
    times = 0.25, 0.5, 0.25
    note = BatchNote("w", 5, "s", 0, 1, 2, ["r"], [SAMPLED], 11.0, 13.0, times, {}, recorded)
    for _element in range(2):
        trace.visit((10.5, 13.0, note))
    event = event_of(trace, 13.0)

    starts = {(span.name, span.start_s, span.duration_s) for span in event.spans}
    assert {("ipc", 1.0, 0.25), ("decode", 1.25, 0.25), ("ipc", 2.25, 0.75)} <= starts
    (found,) = [span for span in event.spans if span.id]
    assert (found.name, found.stage, found.start_s, found.batch) == ("tokenize", "s", 1.5, 0)
    assert (found.id, found.parent, found.attributes) == ("2" * 16, "1" * 16, {"tokens": 3})


def test_requests_of_a_batch_share_its_note():
    traces = Traces(Port())
    note = BatchNote("w", 5, "", 0, 1, 2, ["r"], [], 12.0, 14.0, (0.25, 0.5, 0.25))
    other = BatchNote("w", 6, "", 0, 1, 2, ["r"], [], 12.0, 14.0, (0.25, 0.5, 0.25))
    finished = []
    for visits in ([note], [other, note], [None]):
        trace = RequestTrace(traces, *begin(traces), 10.0)
        for each in visits:
            trace.visit((11.0, 12.0, each))
        finished.append(trace.finished(15.0))
    message = message_of(finished)

    assert message.batches == [note, other]
    assert [[place for _, _, place in visits] for visits in message.visits] == [[0], [1, 0], [-1]]
    assert [[each.id for each in event.batches] for event in events_of(message)] == [
        ["w-5"],
        ["w-6", "w-5"],
        [],
    ]


def test_a_new_trace_is_one_that_is_sampled():
    found = {new_traceparent() for _ in range(100)}

    assert len(found) == 100
    assert all(TraceContext.parse(each).is_sampled for each in found)


def test_a_message_that_is_too_large_goes_in_parts(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "observer.sock"))
        listener.listen()
        port = ObserverPort(tmp_path / "observer.sock")
        traces = Traces(port, 1 << 20)
        traces.sample_by(TraceSampling(share=1.0))
        sizes = []
        for body in (b"x" * 150_000, b"x" * 250_000):  # the kernel takes no message of 250,000
            exchange, request = begin(traces)
            request.body = body
            traces.sample(exchange, request)
            exchange.observe_end(200, 1)
            with pytest.raises(MessageTooLarge):
                port.send([b"x" * 300_000])
        with listener.accept()[0] as observer:
            observer.settimeout(10)
            decode = msgspec.msgpack.Decoder(TraceNotes).decode
            sizes = [len(each.body) for each in decode(observer.recv(1 << 20)).requests]
        port.close()

    assert sizes == [150_000]


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
    traces.sample_by(TraceSampling(share=1.0))
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

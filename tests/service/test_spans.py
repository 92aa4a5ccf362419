# SPDX-License-Identifier: Apache-2.0
"""``servekit.span``: a no-op without a traced request, bounded with one."""

import contextvars
import gc
from threading import Thread

import msgspec
import numpy as np
import pytest

from servekit import span
from servekit.ipc.spans import BatchTrace
from servekit.ipc.trace_context import TraceContext
from servekit.service.spans import MAX_ATTRIBUTES, MAX_SPANS, SpanRecorder, active_span

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CONTEXT = TraceContext(TRACE, "00f067aa0ba902b7", 1)


def nothing(_span):
    return lambda: None


@pytest.fixture
def recorder():
    return SpanRecorder(CONTEXT, nothing)


def test_without_a_traced_request_there_is_no_object_for_each_span():
    with span("a", tokens=1) as first, span("b") as second:
        second.set(more=2)

        assert first is second
        assert first.traceparent == ""
        assert active_span() is None


def test_spans_know_which_one_is_around_them(recorder):
    with recorder.active(), span("outer"):
        with span("first"):
            pass
        with span("second"):
            pass

    first, second, outer = recorder.finish().spans
    assert [first.name, second.name, outer.name] == ["first", "second", "outer"]
    assert first.parent == second.parent == outer.id
    assert outer.parent == recorder.root.id
    assert outer.start_s <= first.start_s <= second.start_s
    assert outer.duration_s >= first.duration_s + second.duration_s


def test_a_span_continues_the_trace_for_other_servers(recorder):
    with recorder.active(), span("call") as called:
        traceparent = called.traceparent

    assert traceparent == f"00-{TRACE}-{recorder.finish().spans[0].id}-01"


def test_an_error_is_noted_without_its_text_and_raised(recorder):
    with pytest.raises(ValueError, match="secret"), recorder.active(), span("a"):
        raise ValueError("secret")

    (found,) = recorder.finish().spans
    assert found.attributes == {"error.type": "ValueError"}
    assert active_span() is None


class Odd:
    def __str__(self):
        raise RuntimeError


VALUES = [
    pytest.param(True, True, id="a truth value"),
    pytest.param(7, 7, id="a number"),
    pytest.param(1 << 70, str(1 << 70), id="a number that does not fit"),
    pytest.param(np.float64(0.5), 0.5, id="a float of NumPy"),
    pytest.param(np.int64(3), "3", id="an integer of NumPy"),
    pytest.param("x" * 999, "x" * 256, id="a long text"),
    pytest.param("a\ud800", "a?", id="a lone surrogate"),
    pytest.param(None, "None", id="nothing"),
    pytest.param(Odd(), "Odd", id="an object that has no text"),
]


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_attributes_can_always_be_sent(recorder, value, expected):
    with recorder.active(), span("a", value=value):
        pass
    trace = msgspec.msgpack.decode(msgspec.msgpack.encode(recorder.finish()), type=BatchTrace)

    assert trace.spans[0].attributes == {"value": expected}


def test_the_number_of_spans_and_attributes_is_bounded(recorder):
    with recorder.active():
        for _ in range(MAX_SPANS + 5):
            with span("n" * 500, **{f"a{n}": n for n in range(99)}):
                pass
    trace = recorder.finish()

    assert (len(trace.spans), trace.dropped) == (MAX_SPANS, 5)
    assert len(trace.spans[0].name) == 100
    assert len(trace.spans[0].attributes) == MAX_ATTRIBUTES


def test_a_thread_takes_part_with_the_context_of_its_caller(recorder):
    def work():
        with span("thread"):
            pass

    with recorder.active():
        threads = [Thread(target=contextvars.copy_context().run, args=[work]), Thread(target=work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [each.name for each in recorder.finish().spans] == ["thread"]


def test_a_span_that_ends_after_the_answer_is_not_kept(recorder):
    with recorder.active():
        late = span("late")
        late.__enter__()
    trace = recorder.finish()
    late.__exit__(None)

    assert trace.spans == []


def test_an_open_span_goes_on_in_the_next_turn_of_a_stream(recorder):
    def stream():
        with span("all"):
            yield 1
            with span("inner"):
                yield 2

    found = stream()
    for _ in range(2):
        with recorder.active():
            next(found)
        assert active_span() is None
    with recorder.active():
        assert list(found) == []

    inner, outer = recorder.finish().spans
    assert (inner.name, inner.parent) == ("inner", outer.id)


def test_a_step_of_several_requests_is_recorded_for_each(recorder):
    other = SpanRecorder(CONTEXT, nothing)
    with recorder.active_for([other]), span("step"), span("forward"):
        pass

    for each in (recorder, other):
        forward, step = each.finish().spans
        assert (forward.parent, step.parent) == (step.id, each.root.id)


def test_an_untraced_span_leaves_nothing_for_the_collector():
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(1000):
        with span("a", tokens=12):
            pass

    assert len(gc.get_objects()) - before < 100

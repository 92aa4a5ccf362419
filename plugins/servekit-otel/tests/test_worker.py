# SPDX-License-Identifier: Apache-2.0
"""The context of OpenTelemetry in a worker, and the spans of libraries."""

import subprocess
import sys
from threading import Thread

import pytest
from opentelemetry import context, propagate, trace
from servekit_otel.worker import entered

from servekit import span
from servekit.ipc.trace_context import TraceContext
from servekit.service.spans import SpanRecorder

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def enter(entered_span):
    scope = entered(entered_span)
    scope.__enter__()
    return lambda: scope.__exit__(None, None, None)


@pytest.fixture
def recorder():
    return SpanRecorder(TraceContext.parse(TRACEPARENT), enter)


def injected():
    headers = {}
    propagate.inject(headers)
    return headers.get("traceparent")


def test_requests_to_other_servers_continue_the_trace(recorder):
    assert injected() is None
    with recorder.active():
        assert injected() == recorder.root.traceparent
        with span("call") as called:
            assert injected() == called.traceparent
        assert injected() == recorder.root.traceparent

    assert injected() is None


def test_spans_of_libraries_are_recorded_with_their_parents(recorder):
    with recorder.active(), span("outer") as outer:
        tracer = trace.get_tracer("library")
        with tracer.start_as_current_span("GET", kind=trace.SpanKind.CLIENT) as client:
            client.set_attribute("http.request.method", "GET")
            with span("inner"):
                pass

    inner, found, _ = recorder.finish().spans
    assert (found.name, found.parent) == ("GET", outer.id)
    assert found.attributes == {"span.kind": "client", "http.request.method": "GET"}
    assert inner.parent == outer.id
    assert 0 <= found.duration_s < 60
    assert abs(found.start_s - inner.start_s) < 60


def test_an_error_is_noted_by_its_class(recorder):
    tracer = trace.get_tracer("library")
    with recorder.active(), pytest.raises(KeyError), tracer.start_as_current_span("a"):
        raise KeyError("secret")

    assert recorder.finish().spans[0].attributes == {"error.type": "KeyError"}


def test_without_a_traced_request_nothing_is_recorded(recorder):
    with recorder.active():
        pass
    with trace.get_tracer("library").start_as_current_span("a") as found:
        assert not found.is_recording()


def test_a_span_of_a_thread_with_the_context_is_recorded(recorder):
    def work(parent):
        with trace.get_tracer("library").start_as_current_span("a", context=parent):
            pass

    with recorder.active():
        thread = Thread(target=work, args=[context.get_current()])
        thread.start()
        thread.join()

    assert [each.name for each in recorder.finish().spans] == ["a"]


OWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
own = TracerProvider()
trace.set_tracer_provider(own)
from servekit_otel.worker import provide_tracers
provide_tracers()
print(trace.get_tracer_provider() is own)
"""


def test_a_tracer_provider_of_the_service_stays():
    assert subprocess.check_output([sys.executable, "-c", OWN], text=True).strip() == "True"


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import sys, servekit_otel.hooks; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "flask", "gevent", "msgspec", "opentelemetry"} & set(loaded)


def test_a_service_without_opentelemetry_does_not_import_it():
    code = (
        "import sys, servekit_otel.hooks as hooks; "
        "print(hooks.enter_span(None), 'opentelemetry' in sys.modules)"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == [
        "None",
        "False",
    ]

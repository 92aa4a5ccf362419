# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry in a worker: its spans become spans of the traced request. Runs in: worker.

Nothing is exported here. The spans go back with the answer of the batch, and the observer exports
them: so a worker needs no collector, no credentials and no thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from opentelemetry import trace
from opentelemetry.context import attach, create_key, detach, get_value, set_value
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from servekit.service.spans import SpanRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from servekit.extension import ServiceSpan

__all__ = ["entered"]

RECORDER = create_key("servekit-recorder")
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


@contextmanager
def entered(span: ServiceSpan) -> Iterator[None]:
    """Make *span* the parent of the spans that begin in this block."""
    provide_tracers()
    trace_id, span_id = int(span.recorder.context.trace_id, 16), int(span.id, 16)
    own = SpanContext(trace_id, span_id, is_remote=True, trace_flags=SAMPLED)
    context = trace.set_span_in_context(NonRecordingSpan(own))
    token = attach(set_value(RECORDER, span.recorder, context))
    try:
        yield
    finally:
        detach(token)


@cache
def provide_tracers() -> None:
    """Record spans, unless the service has set a tracer provider.

    Without a traced request there is no parent, and a span is not recorded.
    """
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF), shutdown_on_exit=False)
        provider.add_span_processor(RecordingProcessor())
        trace.set_tracer_provider(provider)


class RecordingProcessor(SpanProcessor):
    """Records the spans that end with the request that they belong to."""

    def __init__(self) -> None:
        """Begin without spans."""
        self._recorders: WeakValueDictionary[int, SpanRecorder] = WeakValueDictionary()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note whose span it is: the recorder is wherever the context of OpenTelemetry is."""
        recorder = get_value(RECORDER, parent_context)
        if isinstance(recorder, SpanRecorder):
            self._recorders[span.get_span_context().span_id] = recorder

    def on_end(self, span: ReadableSpan) -> None:
        """Record it."""
        own = span.get_span_context()
        recorder = self._recorders.pop(own.span_id, None) if own is not None else None
        if own is None or recorder is None or not (span.start_time and span.end_time):
            return
        start_s = monotonic() - (time_ns() - span.start_time) / 1e9
        parent = trace.format_span_id(span.parent.span_id) if span.parent is not None else ""
        recorder.record(
            span.name,
            start_s,
            (span.end_time - span.start_time) / 1e9,
            attributes_of(span),
            trace.format_span_id(own.span_id),
            parent,
        )


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of *span*, after its kind and its error: only the first are kept."""
    found: dict[str, Any] = {}
    if span.kind is not SpanKind.INTERNAL:
        found["span.kind"] = span.kind.name.lower()
    if not span.status.is_ok:
        raised = [each.attributes or {} for each in span.events if each.name == "exception"]
        found["error.type"] = next((each.get("exception.type") for each in raised), "error")
    return found | dict(span.attributes or {})

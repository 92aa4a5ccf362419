# SPDX-License-Identifier: Apache-2.0
"""Events as spans of OpenTelemetry. Runs in: observer.

A request is a span of the kind SERVER, whose id is in its ``traceparent``. Inside it are the spans
of the front-end, and one for the work of each worker, with its steps and the spans of the service.
A batch is one more span, in the trace of its first sampled member and with links to all of them;
the work of the worker is linked to it in every trace.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

import servekit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource

    from servekit.extension import RequestTraced, Span, TracedBatch

__all__ = ["Converter"]

SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
SCOPE: Final = InstrumentationScope("servekit", servekit.__version__)
UNSET: Final = Status(StatusCode.UNSET)
FAILED: Final = Status(StatusCode.ERROR)
SERVER_ERROR: Final = 500
OF_WORKER: Final = ("decode", "predict", "encode")
KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}


class Window(NamedTuple):
    """When a span begins and ends, in seconds since the arrival of the request."""

    start_s: float
    end_s: float


class Converter:
    """Makes spans of events."""

    def __init__(self, resource: Resource) -> None:
        """Give them all *resource*."""
        self._resource = resource

    def spans_of(self, event: RequestTraced) -> list[ReadableSpan]:
        """Return the spans of a request; none if it is not sampled."""
        own = context_of(event.traceparent)
        if own is None or not own.trace_flags.sampled:
            return []
        made = TraceOfRequest(event, own, self._resource)
        return list(made.spans())


class TraceOfRequest:
    """The spans of one request."""

    def __init__(self, event: RequestTraced, own: SpanContext, resource: Resource) -> None:
        """*own* is the span of the whole request."""
        self._event, self._own, self._resource = event, own, resource
        self._start_ns = int(event.time_s * 1e9)
        self._windows = [self._window(at) for at in range(len(event.batches))]

    def spans(self) -> Iterator[ReadableSpan]:
        """Yield all of them."""
        yield self._request()
        for at, batch in enumerate(self._event.batches):
            yield from self._batch(batch, self._windows[at])
            yield self._work(batch, self._windows[at])
        for number, span in enumerate(self._event.spans):
            yield self._part(number, span)

    # ------------------------------------------------------------ the request

    def _request(self) -> ReadableSpan:
        event, parent = self._event, None
        if event.parent_span:
            trace_id, parent_id = self._own.trace_id, int(event.parent_span, 16)
            parent = SpanContext(trace_id, parent_id, is_remote=True, trace_flags=SAMPLED)
        attributes: dict[str, Any] = {
            "http.request.method": event.method,
            "url.path": event.path,
            "http.route": event.path,
            "servekit.model": event.model,
            "servekit.version": event.version,
            "servekit.request_id": event.request_id,
        }
        if event.status:
            attributes["http.response.status_code"] = event.status
        has_failed = event.status >= SERVER_ERROR
        if has_failed or not event.status:
            attributes["error.type"] = str(event.status) if has_failed else "disconnected"
        return ReadableSpan(
            name=f"{event.method} {event.path}",
            context=self._own,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.SERVER,
            status=FAILED if has_failed else UNSET,
            start_time=self._start_ns,
            end_time=self._start_ns + int(event.duration_s * 1e9),
            instrumentation_scope=SCOPE,
        )

    # ------------------------------------------------------------ batches

    def _window(self, at: int) -> Window:
        """Return when the worker had the batch at *at*."""
        mine = [each for each in self._event.spans if each.batch == at]
        work = [each for each in mine if each.name in OF_WORKER and not each.id] or mine
        start_s = min((each.start_s for each in work), default=0.0)
        return Window(start_s, max((each.start_s + each.duration_s for each in work), default=0.0))

    def _batch(self, batch: TracedBatch, window: Window) -> Iterator[ReadableSpan]:
        """Yield the span of *batch*, if the request is its first sampled member."""
        if first_sampled(batch) != self._event.traceparent:
            return
        attributes = {**_facts(batch), "servekit.batch.size": batch.size}
        links = [Link(each) for each in map(context_of, dict.fromkeys(batch.traceparents)) if each]
        yield self._span("batch", window, self._batch_id(batch), self._own, attributes, links)

    def _batch_id(self, batch: TracedBatch) -> int:
        return derived("batch", batch.id, batch.span)

    def _work(self, batch: TracedBatch, window: Window) -> ReadableSpan:
        """Return the span of what the worker did, around its parts."""
        first = context_of(first_sampled(batch))
        links = [Link(_inside(first, self._batch_id(batch)))] if first is not None else []
        attributes: dict[str, Any] = _facts(batch)
        if batch.dropped:
            attributes["servekit.dropped_spans"] = batch.dropped
        name = f"worker {batch.stage}" if batch.stage else "worker"
        return self._span(name, window, self._work_id(batch), self._own, attributes, links)

    def _work_id(self, batch: TracedBatch) -> int:
        """Return the id of the span around what the worker did with *batch*."""
        return self._id_of(batch, batch.span) if batch.span else self._new_id("work", batch.id)

    def _id_of(self, batch: TracedBatch, recorded: str) -> int:
        """Return *recorded*, an id from the worker, in the trace that it belongs to.

        Other members of the batch may be in that trace too, and have other ids.
        """
        is_first = first_sampled(batch) == self._event.traceparent
        return int(recorded, 16) if is_first else self._new_id(recorded)

    # ------------------------------------------------------------ parts

    def _part(self, number: int, span: Span) -> ReadableSpan:
        """Return one of the parts of the time, or a span of the service."""
        window = Window(span.start_s, span.start_s + span.duration_s)
        attributes: dict[str, Any] = dict(span.attributes)
        if span.stage:
            attributes["servekit.stage"] = span.stage
        if span.batch < 0 or (span.name not in OF_WORKER and not span.id):
            return self._span(span.name, window, self._part_id(number), self._own, attributes)
        batch = self._event.batches[span.batch]
        parent = _inside(self._own, self._parent_id(batch, span))
        own_id = self._id_of(batch, span.id) if span.id else self._part_id(number)
        kind = KINDS.get(str(attributes.pop("span.kind", "")), SpanKind.INTERNAL)
        return self._span(span.name, window, own_id, parent, attributes, kind=kind)

    def _parent_id(self, batch: TracedBatch, span: Span) -> int:
        """Return the id of what is around *span*: another one of the service, or a step."""
        if span.id and span.parent != batch.span:
            return self._id_of(batch, span.parent)
        if span.id:
            for number, step in enumerate(self._event.spans):
                is_step = step.batch == span.batch and step.name in OF_WORKER and not step.id
                if is_step and step.start_s <= span.start_s <= step.start_s + step.duration_s:
                    return self._part_id(number)
        return self._work_id(batch)

    def _part_id(self, number: int) -> int:
        return self._new_id("part", str(number))

    def _new_id(self, *parts: str) -> int:
        """Return an id that no other request has, the same for the same *parts*."""
        return derived(self._event.traceparent, *parts)

    def _span(
        self,
        name: str,
        window: Window,
        own_id: int,
        parent: SpanContext,
        attributes: Mapping[str, Any],
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        return ReadableSpan(
            name=name,
            context=_inside(parent, own_id),
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            links=links,
            kind=kind,
            status=FAILED if "error.type" in attributes else UNSET,
            start_time=self._start_ns + int(window.start_s * 1e9),
            end_time=self._start_ns + int(window.end_s * 1e9),
            instrumentation_scope=SCOPE,
        )


def context_of(traceparent: str) -> SpanContext | None:
    """Return the span that *traceparent* names; ``None`` if it is empty."""
    if not traceparent:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    trace_flags = TraceFlags(int(flags, 16))
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=trace_flags
    )


def first_sampled(batch: TracedBatch) -> str:
    """Return the ``traceparent`` of the first member that is sampled; "" if there is none."""
    found = ((text, context_of(text)) for text in batch.traceparents)
    return next((text for text, each in found if each and each.trace_flags.sampled), "")


def derived(*parts: str) -> int:
    """Return a span id made of *parts*."""
    return int.from_bytes(blake2b("\n".join(parts).encode(), digest_size=8).digest()) or 1


def _inside(other: SpanContext, own_id: int) -> SpanContext:
    """Return the context of another span in the trace of *other*."""
    return SpanContext(other.trace_id, own_id, is_remote=False, trace_flags=SAMPLED)


def _facts(batch: TracedBatch) -> dict[str, Any]:
    found: dict[str, Any] = {
        "servekit.batch.id": batch.id,
        "servekit.replica": batch.replica,
        "process.pid": batch.pid,
    }
    return found | {"servekit.stage": batch.stage} if batch.stage else found

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
STEPS: Final = ("decode", "predict", "encode")
KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}


MASK: Final = (1 << 64) - 1
ODD: Final = 0x9E3779B97F4A7C15  #: multiples of it differ in all digits
OF_BATCHES: Final = 1 << 20  #: numbers from here on are for works, and smaller ones for parts


class Work(NamedTuple):
    """The part of a worker in the request: its work on one batch."""

    batch: TracedBatch
    id: int  #: the span id
    context: SpanContext
    batch_context: SpanContext | None  #: the span of the whole batch; ``None``: it has none
    is_first: bool  #: the request is the first sampled member of the batch
    start_s: float  #: since the arrival of the request
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
        self._base = hashed(event.traceparent)
        self._works = [self._work(at, batch) for at, batch in enumerate(event.batches)]

    def spans(self) -> Iterator[ReadableSpan]:
        """Yield all of them."""
        yield self._request()
        for work in self._works:
            if work.is_first:
                yield self._span_of_batch(work)
            yield self._span_of_work(work)
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

    def _work(self, at: int, batch: TracedBatch) -> Work:
        """Return what the worker did with the batch at *at*."""
        mine = [each for each in self._event.spans if each.batch == at]
        steps = [each for each in mine if each.name in STEPS and not each.id] or mine
        first = first_sampled(batch)
        is_first = first == self._event.traceparent
        own_id = self._id(OF_BATCHES + at)
        if batch.span:
            own_id = self._recorded_id(batch.span, is_first=is_first)
        found = context_of(first)
        return Work(
            batch,
            own_id,
            inside(self._own, own_id),
            inside(found, hashed(batch.id + batch.span)) if found is not None else None,
            is_first,
            min((each.start_s for each in steps), default=0.0),
            max((each.start_s + each.duration_s for each in steps), default=0.0),
        )

    def _span_of_batch(self, work: Work) -> ReadableSpan:
        """Return the span of a batch, with links to its members."""
        batch = work.batch
        assert work.batch_context is not None
        attributes = {**_facts(batch), "servekit.batch.size": batch.size}
        links = [Link(each) for each in map(context_of, dict.fromkeys(batch.traceparents)) if each]
        times = work.start_s, work.end_s
        return self._span("batch", times, work.batch_context, self._own, attributes, links)

    def _span_of_work(self, work: Work) -> ReadableSpan:
        """Return the span around the steps of a worker."""
        batch, attributes = work.batch, _facts(work.batch)
        links = [Link(work.batch_context)] if work.batch_context is not None else []
        if batch.dropped:
            attributes["servekit.dropped_spans"] = batch.dropped
        name = f"worker {batch.stage}" if batch.stage else "worker"
        times = work.start_s, work.end_s
        return self._span(name, times, work.context, self._own, attributes, links)

    # ------------------------------------------------------------ parts

    def _part(self, number: int, span: Span) -> ReadableSpan:
        """Return one of the parts of the time, or a span of the service."""
        times = span.start_s, span.start_s + span.duration_s
        attributes: dict[str, Any] = dict(span.attributes)
        if span.stage:
            attributes["servekit.stage"] = span.stage
        own, work = inside(self._own, self._id(number)), None
        if span.batch >= 0 and (span.id or span.name in STEPS):
            work = self._works[span.batch]
        if work is None or not span.id:
            parent = self._own if work is None else work.context
            return self._span(span.name, times, own, parent, attributes)
        own = inside(self._own, self._recorded_id(span.id, is_first=work.is_first))
        kind = KINDS.get(str(attributes.pop("span.kind", "")), SpanKind.INTERNAL)
        parent = inside(self._own, self._parent_id(work, span))
        return self._span(span.name, times, own, parent, attributes, kind=kind)

    def _parent_id(self, work: Work, span: Span) -> int:
        """Return the id of what is around *span* of a service: another one, or the last step."""
        if span.parent != work.batch.span:
            return self._recorded_id(span.parent, is_first=work.is_first)
        found = work.id
        for number, step in enumerate(self._event.spans):  # in the order in which they began
            is_step = step.batch == span.batch and step.name in STEPS and not step.id
            if is_step and step.start_s <= span.start_s:
                found = self._id(number)
        return found

    def _id(self, number: int) -> int:
        """Return an id that no other request has."""
        return self._base ^ ((number + 1) * ODD & MASK) or 1

    def _recorded_id(self, recorded: str, *, is_first: bool) -> int:
        """Return *recorded*, an id from the worker, in the trace of this request.

        It is of the trace of the first member. Others may be in that trace too, and have other ids.
        """
        return int(recorded, 16) if is_first else int(recorded, 16) ^ self._base or 1

    def _span(
        self,
        name: str,
        times: tuple[float, float],
        own: SpanContext,
        parent: SpanContext,
        attributes: Mapping[str, Any],
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        return ReadableSpan(
            name=name,
            context=own,
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            links=links,
            kind=kind,
            status=FAILED if "error.type" in attributes else UNSET,
            start_time=self._start_ns + int(times[0] * 1e9),
            end_time=self._start_ns + int(times[1] * 1e9),
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
    return next((each for each in batch.traceparents if int(each[53:55], 16) & 1), "")


def hashed(text: str) -> int:
    """Return a span id that is the same for the same *text*."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1


def inside(other: SpanContext, own_id: int) -> SpanContext:
    """Return the context of another span in the trace of *other*."""
    return SpanContext(other.trace_id, own_id, is_remote=False, trace_flags=SAMPLED)


def _facts(batch: TracedBatch) -> dict[str, Any]:
    found: dict[str, Any] = {
        "servekit.batch.id": batch.id,
        "servekit.replica": batch.replica,
        "process.pid": batch.pid,
    }
    return found | {"servekit.stage": batch.stage} if batch.stage else found

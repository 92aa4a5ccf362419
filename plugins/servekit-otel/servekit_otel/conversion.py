# SPDX-License-Identifier: Apache-2.0
"""Events as spans of OpenTelemetry, encoded for OTLP. Runs in: observer.

A request is a span of the kind SERVER, whose id is in its ``traceparent``. Inside it are the spans
of the front-end, and one for the work of each worker, with its steps and the spans of the service.
A batch is one more span, in the trace of its first sampled member and with links to all of them;
the work of the worker is linked to it in every trace.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from servekit_otel.otlp import (
    CHILD,
    END,
    INTERNAL,
    KINDS,
    PARENT_ID,
    ROOT,
    SERVER,
    SPAN_ID,
    START,
    TRACE_ID,
    SpanForm,
    TextAttribute,
    attributes_of,
    link,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from servekit.extension import RequestTraced, Span, TracedBatch

    Forms = dict[tuple[Hashable, ...], SpanForm]

__all__ = ["Converter", "EncodedSpans"]

SERVER_ERROR: Final = 500
STEPS: Final = frozenset(("decode", "predict", "encode"))
REQUEST_ID, BATCH_ID = TextAttribute("servekit.request_id"), TextAttribute("servekit.batch.id")
FORM: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
MASK: Final = (1 << 64) - 1
ODD: Final = 0x9E3779B97F4A7C15  #: multiples of it differ in all digits
OF_BATCHES: Final = 1 << 20  #: numbers from here on are for works, and smaller ones for parts
MAX_FORMS: Final = 1000  #: that are kept


class EncodedSpans(NamedTuple):
    """Spans as fields of a ``ScopeSpans``."""

    content: bytes
    spans: int  #: how many


class ParsedContext(NamedTuple):
    """A span that a ``traceparent`` names."""

    trace_id: bytes
    span_id: int
    flags: int


class Work:
    """The part of a worker in a request: its work on one batch."""

    __slots__ = ("batch", "end_s", "first", "id", "is_first", "start_s", "step_id")

    def __init__(self, batch: TracedBatch, own: str, base: int, number: int) -> None:
        """*own* is the ``traceparent`` of the request, and *number* gives an id without another."""
        self.batch = batch
        first = next(filter(is_sampled, batch.traceparents), "")
        self.is_first = first == own
        self.first = context_of(first) if first else None  #: its trace has the span of the batch
        if batch.span:
            self.id = id_from(batch.span, 0 if self.is_first else base)
        else:
            self.id = base ^ (OF_BATCHES + number) * ODD & MASK or 1
        self.step_id = self.id  #: the step that began last, or the whole
        self.start_s, self.end_s = inf, 0.0  #: since the arrival of the request

    @property
    def batch_id(self) -> int:
        """The id of the span of the batch."""
        name = self.batch.span or self.batch.id
        return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1

    def include(self, start_s: float, end_s: float) -> None:
        """Extend it by the time of one of its parts."""
        self.start_s, self.end_s = min(self.start_s, start_s), max(self.end_s, end_s)


class Converter:
    """Makes spans of events. What many spans have in common is encoded once."""

    def __init__(self) -> None:
        """Begin without forms."""
        self._forms: Forms = {}

    def spans_of(self, event: RequestTraced) -> EncodedSpans | None:
        """Return the spans of a request; ``None`` if it is not sampled."""
        if not is_sampled(event.traceparent):
            return None
        if len(self._forms) > MAX_FORMS:
            self._forms.clear()
        pieces = TraceOfRequest(event, self._forms).pieces()
        return EncodedSpans(b"".join(pieces), len(pieces) // 3)


class TraceOfRequest:
    """The spans of one request, as pieces of bytes: three of each."""

    __slots__ = ("_event", "_forms", "_id", "_pieces", "_start_ns", "_trace_id", "_works")

    def __init__(self, event: RequestTraced, forms: Forms) -> None:
        """*forms* are those that are known; more are added."""
        self._event, self._forms = event, forms
        self._trace_id, self._id, _ = context_of(event.traceparent)
        self._start_ns = int(event.time_s * 1e9)
        self._works = [
            Work(batch, event.traceparent, self._id, number)
            for number, batch in enumerate(event.batches)
        ]
        self._pieces: list[bytes] = []

    def pieces(self) -> list[bytes]:
        """Return them."""
        self._add_request()
        own_id, forms = self._id, self._forms
        for at, span in enumerate(self._event.spans, 1):  # in the order in which they began
            name, start_s, around, place = span.name, span.start_s, own_id, span.batch
            end_s = start_s + span.duration_s
            if span.id and place >= 0:
                self._add_of_service(span, self._works[place])
                continue
            span_id = own_id ^ at * ODD & MASK or 1
            if place >= 0 and name in STEPS:
                work = self._works[place]
                around, work.step_id = work.id, span_id
                work.include(start_s, end_s)
            form = forms.get((name, span.stage)) if not span.attributes else form_of(span)
            if form is None:
                form = forms[name, span.stage] = form_of(span)
            self._add(form, start_s, end_s, span_id, around)
        for work in self._works:
            self._add_work(work)
        return self._pieces

    def _add_request(self) -> None:
        event, trace_id, span_id, start_ns = self._event, self._trace_id, self._id, self._start_ns
        is_root = not event.parent_span
        key = event.method, event.path, event.model, event.version, event.status, is_root
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = form_of_request(event)
        form = form.more(REQUEST_ID.of(event.request_id))
        end_ns = start_ns + int(event.duration_s * 1e9)
        times = START, start_ns, END, end_ns
        if is_root:
            fixed = ROOT.pack(TRACE_ID, trace_id, SPAN_ID, span_id, *times)
        else:
            parent = PARENT_ID, id_from(event.parent_span)
            fixed = CHILD.pack(TRACE_ID, trace_id, SPAN_ID, span_id, *times, *parent)
        self._pieces += form.head, fixed, form.tail

    def _add_of_service(self, span: Span, work: Work) -> None:
        """Add a span that the service gave: inside another one, or inside the last step."""
        base = 0 if work.is_first else self._id
        is_outer = span.parent == work.batch.span
        around = work.step_id if is_outer else id_from(span.parent, base)
        end_s = span.start_s + span.duration_s
        self._add(form_of(span), span.start_s, end_s, id_from(span.id, base), around)

    def _add_work(self, work: Work) -> None:
        """Add the span around the steps of a worker, and that of the batch if it belongs here."""
        batch, forms, name = work.batch, self._forms, BATCH_ID.of(work.batch.id)
        if work.start_s > work.end_s:  # no answer
            for span in self._event.spans:
                if span.batch >= 0 and self._works[span.batch] is work:
                    work.include(span.start_s, span.start_s + span.duration_s)
        times = work.start_s, work.end_s
        facts = batch.stage, batch.replica, batch.pid, batch.size
        form = forms.get(("worker", *facts))
        if form is None:
            form = forms["worker", *facts] = form_of_work(batch)
            forms["batch", *facts] = form_of_batch(batch)
        more = name
        if batch.dropped:
            more += attributes_of({"servekit.dropped_spans": batch.dropped})
        if work.first is None:
            self._add(form.more(more), *times, work.id, self._id)
            return
        batch_id = work.batch_id
        more += link(work.first.trace_id, batch_id)
        self._add(form.more(more), *times, work.id, self._id)
        if work.is_first:
            form = forms["batch", *facts].more(name + links_to(batch.traceparents))
            self._add(form, *times, batch_id, self._id)

    def _add(self, form: SpanForm, start_s: float, end_s: float, own_id: int, around: int) -> None:
        began, head, tail = self._start_ns, form.head, form.tail
        start_ns, end_ns = began + int(start_s * 1e9), began + int(end_s * 1e9)
        times = START, start_ns, END, end_ns, PARENT_ID
        fixed = CHILD.pack(TRACE_ID, self._trace_id, SPAN_ID, own_id, *times, around)
        self._pieces += head, fixed, tail


# ------------------------------------------------------------ forms


def form_of_request(event: RequestTraced) -> SpanForm:
    """Return the form of the span of a request, without the id of the request."""
    status, has_failed = event.status, event.status >= SERVER_ERROR
    attributes: dict[str, str | int] = {
        "http.request.method": event.method,
        "url.path": event.path,
        "http.route": event.path,
        "servekit.model": event.model,
        "servekit.version": event.version,
    }
    if status:
        attributes["http.response.status_code"] = status
    if has_failed or not status:
        attributes["error.type"] = str(status) if has_failed else "disconnected"
    name, fields = f"{event.method} {event.path}", attributes_of(attributes)
    if event.parent_span:
        return SpanForm.of(name, fields, kind=SERVER, is_failed=has_failed, is_parent_remote=True)
    return SpanForm.of(name, fields, fixed=ROOT, kind=SERVER, is_failed=has_failed)


def form_of(span: Span) -> SpanForm:
    """Return the form of a part of the time, or of a span of the service."""
    attributes, kind = dict(span.attributes), INTERNAL
    if span.stage:
        attributes["servekit.stage"] = span.stage
    if span.id:
        kind = KINDS.get(str(attributes.pop("span.kind", "")), INTERNAL)
    return SpanForm.of(
        span.name, attributes_of(attributes), kind=kind, is_failed="error.type" in attributes
    )


def form_of_work(batch: TracedBatch) -> SpanForm:
    """Return the form of the spans of the worker of *batch*, without the id of the batch."""
    name = f"worker {batch.stage}" if batch.stage else "worker"
    return SpanForm.of(name, _facts(batch))


def form_of_batch(batch: TracedBatch) -> SpanForm:
    """Return the form of the span of *batch*, without its id and the links to its members."""
    return SpanForm.of("batch", _facts(batch) + attributes_of({"servekit.batch.size": batch.size}))


def links_to(traceparents: Sequence[str]) -> bytes:
    """Return links to the members of a batch."""
    members = filter(FORM.match, dict.fromkeys(traceparents))
    return b"".join(link(*each) for each in map(context_of, members))


def _facts(batch: TracedBatch) -> bytes:
    found: dict[str, str | int] = {"servekit.replica": batch.replica, "process.pid": batch.pid}
    return attributes_of(found | {"servekit.stage": batch.stage} if batch.stage else found)


# ------------------------------------------------------------ ids


def context_of(traceparent: str) -> ParsedContext:
    """Return the span that *traceparent* names."""
    trace_id = bytes.fromhex(traceparent[3:35])
    return ParsedContext(trace_id, id_from(traceparent[36:52]), int(traceparent[53:55], 16))


def is_sampled(traceparent: str) -> bool:
    """Whether *traceparent* names a span that is sampled. Clients may send any text as one."""
    return FORM.match(traceparent) is not None and bool(int(traceparent[53:55], 16) & 1)


def id_from(text: str, base: int = 0) -> int:
    """Return the id that *text*, hexadecimal digits, stands for in the trace of a request.

    :param base: the id of the request, unless it is the first sampled member of its batch. To
        that one's trace belong the ids from a worker. Other members may be in the same trace: for
        these, the ids are derived.
    """
    return int.from_bytes(bytes.fromhex(text), "little") ^ base or 1

# SPDX-License-Identifier: Apache-2.0
"""The trace of one request, while it is answered."""

from __future__ import annotations

from operator import attrgetter
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from servekit.extension.events import RequestTraced, Span, TracedBatch
from servekit.ipc.trace_context import TRACEPARENT, TraceContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.ipc.spans import BatchTrace, SpanValue

__all__ = ["TRACE", "BatchNote", "RequestTrace", "TraceTaker", "Visit", "context_of"]

TRACE = TRACEPARENT.encode()

START_OF = attrgetter("start_s")
MAX_VISITS = 64  #: batches of one request that are shown


class BatchNote(Struct, eq=False):
    """A batch, or a stream, that has left its worker, or will not be answered."""

    shown: TracedBatch
    sent_at: float  #: ``monotonic``
    ended_at: float  #: ``monotonic``
    #: seconds to decode, predict and encode; ``None``: only when it was sent and when it ended
    times: tuple[float, float, float] | None
    steps: Mapping[str, float] = {}  #: stage to seconds, if the worker has several
    recorded: BatchTrace | None = None  #: what the worker recorded
    attributes: dict[str, SpanValue] = {}  #: of the span ``predict``


class Visit(NamedTuple):
    """The way of a request, or of a part of it, through one queue and one batch."""

    queued_at: float  #: ``monotonic``
    left_at: float  #: ``monotonic``
    batch: BatchNote | None  #: ``None``: it left the queue without an answer of a worker


class TraceTaker(Protocol):
    """Gets traces when their requests are over."""

    def begin(self) -> None:
        """A trace has begun."""

    def take(self, trace: RequestTrace, now: float) -> None:
        """Take *trace*, which is over *now*."""


class RequestTrace:
    """Begins before the response, and ends when the client's socket has taken all of it."""

    __slots__ = (
        *("_answered_at", "_exchange", "_handled_at", "_is_over", "_taker"),
        *("began", "context", "is_sampled", "parent_span", "request", "status", "version"),
        "visits",
    )

    def __init__(
        self, taker: TraceTaker, exchange: Exchange, request: HttpRequest, handled_at: float
    ) -> None:
        """Follow *request*, which had arrived whole at *handled_at* (``monotonic``)."""
        self._taker, self._exchange, self.request = taker, exchange, request
        self.began = request.began or handled_at
        self._handled_at = handled_at
        self._answered_at = 0.0
        self._is_over = False
        self.context: TraceContext | None = None  #: the request as a span
        self.parent_span = ""
        self.is_sampled = False
        self.status = 0
        self.version = ""
        self.visits: list[Visit] = []
        exchange.trace = self
        exchange.add_observer(self._on_response)
        taker.begin()

    @property
    def response_s(self) -> float:
        """The time from the complete request to its response."""
        return self._answered_at - self._handled_at

    def join(self, context: TraceContext, parent_span: str = "") -> None:
        """Have the request be the span *context* of a trace that is sampled."""
        self.context, self.parent_span, self.is_sampled = context, parent_span, True

    def visit(self, visit: Visit) -> None:
        """Note that the request, or a part of it, has left a queue or a batch."""
        if len(self.visits) < MAX_VISITS and not self._is_over:
            self.visits.append(visit)

    def _on_response(self, status: int | None, _size: int) -> None:
        self.status, self._answered_at = status or 0, monotonic()
        self.version = self._exchange.model_version.decode()
        if status is None or not self._exchange.tells_when_sent:
            self.finish()

    def finish(self) -> None:
        """End: the response has been sent, or the client has disconnected."""
        if not self._is_over:
            self._is_over = True
            self._taker.take(self, monotonic())

    def event(
        self, reason: Literal["slow", "sampled"], now: float, keep_bodies: int = 0
    ) -> RequestTraced:
        """Return what plugins get of it; the request has a route, and is over *now*.

        :param keep_bodies: size of the largest body that is in it; 0: none.
        """
        request, context, parent_span = self.request, self.context, self.parent_span
        if context is None and (found := context_of(request)) is not None:
            context, parent_span = found.child(), found.span_id
        notes = list({id(each.batch): each.batch for each in self.visits if each.batch}.values())
        return RequestTraced(
            time_s=time() - (now - self.began),
            request_id=request.request_id,
            traceparent=str(context) if context is not None else "",
            parent_span=parent_span,
            model=request.route.row.name,
            version=self.version or request.route.row.version,
            method=request.method.decode("latin-1"),
            path=request.target.partition(b"?")[0].decode("latin-1"),
            status=self.status,
            reason=reason,
            duration_s=now - self.began,
            spans=sorted(self._spans(notes, now), key=START_OF),
            batches=[note.shown for note in notes],
            content_type=request.headers.get(b"content-type", b"").decode("latin-1"),
            body=_kept_body(request, keep_bodies),
        )

    def _spans(self, notes: list[BatchNote], now: float) -> Iterator[Span]:
        began = self.began
        if self._handled_at > began:
            yield _span("receive", began, self._handled_at, began)
        for queued_at, left_at, note in self.visits:
            if note is None:
                yield _span("queue", queued_at, left_at, began)
                continue
            place = notes.index(note)
            yield _span("queue", queued_at, note.sent_at, began, note.shown.stage, place)
            yield from _spans_in_worker(note, began, place)
        for place, note in enumerate(notes):
            yield from _spans_of_service(note, began, place)
        if self._answered_at:
            yield _span("send", self._answered_at, now, began)


def _kept_body(request: HttpRequest, keep_bodies: int) -> bytes | None:
    """Return the body of *request* if it may be kept; one in shared memory has been given back."""
    body = request.body
    return body if keep_bodies and isinstance(body, bytes) and len(body) <= keep_bodies else None


def context_of(request: HttpRequest) -> TraceContext | None:
    """Return the span that *request* names as the one it comes from, if it names one."""
    given = request.headers.get(TRACE)
    return TraceContext.parse(given.decode("latin-1")) if given is not None else None


def _span(
    name: str, start: float, end: float, began: float, stage: str = "", batch: int = -1
) -> Span:
    """Return the span from *start* to *end* of a request that *began*, all ``monotonic``."""
    duration_s = max(0.0, end - start)
    return Span(name=name, stage=stage, start_s=start - began, duration_s=duration_s, batch=batch)


def _spans_in_worker(note: BatchNote, began: float, batch: int) -> Iterator[Span]:
    """Yield the spans of *note*, one after another.

    A worker says when it began only if a member is sampled. For other batches, both ways between
    the processes come first.
    """
    stage, at = note.shown.stage, note.sent_at - began
    if note.times is None:
        yield Span(
            name="predict",
            stage=stage,
            start_s=at,
            duration_s=note.ended_at - note.sent_at,
            batch=batch,
            attributes=note.attributes,
        )
        return
    decode_s, predict_s, encode_s = note.times
    ipc_s = max(0.0, note.ended_at - note.sent_at - decode_s - predict_s - encode_s)
    steps = note.steps or {stage: predict_s}
    out_s = ipc_s
    if note.recorded is not None:
        out_s = min(ipc_s, max(0.0, note.recorded.start_s - note.sent_at))
    parts = [("ipc", stage, out_s), ("decode", stage, decode_s)]
    parts += [("predict", each, step_s) for each, step_s in steps.items()]
    parts.append(("encode", stage, encode_s))
    if ipc_s > out_s:
        parts.append(("ipc", stage, ipc_s - out_s))
    for name, of, duration_s in parts:
        yield Span(name=name, stage=of, start_s=at, duration_s=duration_s, batch=batch)
        at += duration_s


def _spans_of_service(note: BatchNote, began: float, batch: int) -> Iterator[Span]:
    """Yield the spans that a service gave."""
    for each in note.recorded.spans if note.recorded is not None else ():
        yield Span(
            name=each.name,
            stage=each.stage or note.shown.stage,
            start_s=each.start_s - began,
            duration_s=each.duration_s,
            batch=batch,
            attributes=each.attributes,
            id=each.id,
            parent=each.parent,
        )

# SPDX-License-Identifier: Apache-2.0
"""The trace of one request, while it is answered."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

from servekit.ipc.trace_context import TRACEPARENT, TraceContext
from servekit.ipc.trace_notes import RequestNote

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.ipc.trace_notes import BatchNote

    #: the way of a request, or of a part of it, through one queue and one batch: when it was
    #: queued, when it left, and the batch; ``None``: it left without an answer of a worker
    Visit = tuple[float, float, BatchNote | None]

__all__ = ["TRACE", "FinishedTrace", "RequestTrace", "TraceTaker", "context_of"]

TRACE = TRACEPARENT.encode()
MAX_VISITS = 64  #: batches of one request that are shown


class FinishedTrace(NamedTuple):
    """A request that is over."""

    note: RequestNote
    visits: list[Visit]


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
        *("began", "is_sampled", "parent_span", "request", "status", "traceparent", "version"),
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
        self._is_over = self.is_sampled = False
        self.traceparent = self.parent_span = ""  #: the request as a span, if it is sampled
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

    def join(self, traceparent: str, parent_span: str = "") -> None:
        """Make the request the span *traceparent* of a trace that is sampled."""
        self.traceparent, self.parent_span, self.is_sampled = traceparent, parent_span, True

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

    def finished(self, now: float, keep_bodies: int = 0) -> FinishedTrace:
        """Return what the observer gets of it; the request has a route, and is over *now*.

        :param keep_bodies: size of the largest body that is in it; 0: none.
        """
        request, traceparent, parent_span = self.request, self.traceparent, self.parent_span
        if not self.is_sampled and (found := context_of(request)) is not None:
            traceparent, parent_span = str(found.child()), found.span_id
        row = request.route.row
        note = RequestNote(
            request.request_id,
            traceparent,
            parent_span,
            row.name,
            self.version or row.version,
            request.method,
            request.target,
            self.status,
            self.is_sampled,
            self.began,
            self._handled_at,
            self._answered_at,
            now,
            request.headers.get(b"content-type", b""),
            _kept_body(request, keep_bodies) if keep_bodies else None,
        )
        return FinishedTrace(note, self.visits)


def _kept_body(request: HttpRequest, keep_bodies: int) -> bytes | None:
    """Return the body of *request* if it may be kept; one in shared memory has been given back."""
    body = request.body
    return body if isinstance(body, bytes) and len(body) <= keep_bodies else None


def context_of(request: HttpRequest) -> TraceContext | None:
    """Return the span that *request* names as the one it comes from, if it names one."""
    given = request.headers.get(TRACE)
    return TraceContext.parse(given.decode("latin-1")) if given is not None else None

# SPDX-License-Identifier: Apache-2.0
"""The traces of one front-end: which requests have one, and where they go."""

from __future__ import annotations

from http import HTTPStatus
from random import random
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from servekit.frontend.metrics.exemplars import Exemplars
from servekit.frontend.tracing.slow import SlowRequests
from servekit.frontend.tracing.trace import TRACE, RequestTrace, context_of
from servekit.ipc.trace_context import TraceContext

if TYPE_CHECKING:
    from servekit.extension.events import RequestTraced
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.tracing.observer_port import ObserverPort
    from servekit.ipc.table import ModelRow

__all__ = ["Traces"]

MAX_WAITING = 32  #: events that are sent together
SEND_S = 1.0  #: how often slow requests are sent
LATE_S = 0.005  #: a request that arrives faster is not slow for that


class Traces:
    """There is one while a plugin implements ``request_traced``."""

    def __init__(self, port: ObserverPort, keep_bodies: int = 0) -> None:
        """Send to *port*. No request is sampled before ``share`` is set.

        :param keep_bodies: size of the largest body that is sent; 0: none.
        """
        self._port, self._keep_bodies = port, keep_bodies
        self.exemplars = Exemplars()  #: the sampled requests that ``/metrics`` shows
        #: requests without ``traceparent`` that are sampled, from 0 to 1
        self.share: float | None = None
        self._waiting: list[RequestTraced] = []  #: sampled requests that are over
        self._slow: WeakValueDictionary[str, SlowRequests] = WeakValueDictionary()
        self._due = 0.0  #: ``monotonic``: when slow requests are sent next
        self.live = 0  #: traces that have begun and are not over

    def slow_of(self, model: str) -> SlowRequests:
        """Return the slowest requests of *model*, which exist as long as somebody holds them."""
        return self._slow.setdefault(model, SlowRequests())

    def begin(self) -> None:
        """Count a trace that has begun."""
        self.live += 1

    def follow(self, exchange: Exchange, request: HttpRequest, now: float) -> RequestTrace:
        """Return the trace of *request*, which is handled *now* and may turn out to be slow."""
        trace: RequestTrace | None = exchange.trace
        return trace if trace is not None else RequestTrace(self, exchange, request, now)

    def follow_late(self, exchange: Exchange, request: HttpRequest) -> None:
        """Trace *request*, which has arrived in pieces, if that took long."""
        now = monotonic()
        if now - request.began >= LATE_S:
            self.follow(exchange, request, now)

    def sample(self, exchange: Exchange, request: HttpRequest) -> None:
        """Trace *request* if its ``traceparent`` says so, or by chance if it has none."""
        if TRACE not in request.headers or (given := context_of(request)) is None:
            if self.share is None or random() >= self.share:  # noqa: S311 - a sample, no secret
                return
            context, parent_span = TraceContext.new(is_sampled=True), ""
        elif given.is_sampled and self.share is not None:
            context, parent_span = given.child(), given.span_id
        else:
            return
        request.headers[TRACE] = str(context).encode()
        self.follow(exchange, request, monotonic()).join(context, parent_span)

    def take(self, trace: RequestTrace, now: float) -> None:
        """Send *trace* if it is sampled, or keep it if it is slow."""
        self.live -= 1
        route = trace.request.route
        if route is None:  # not a prediction
            return
        if trace.is_sampled:
            self._note_exemplar(trace, route.row)
            self._waiting.append(trace.event("sampled", now, self._keep_bodies))
            if self._keep_bodies or len(self._waiting) >= MAX_WAITING:
                self._send_sampled()
            return
        slow = self._slow.get(route.row.name)
        if slow is not None and now - trace.began >= slow.limit_s:
            slow.add(trace.event("slow", now, self._keep_bodies))

    def _note_exemplar(self, trace: RequestTrace, row: ModelRow) -> None:
        if trace.status == HTTPStatus.OK and trace.context is not None:
            version, trace_id = trace.version or row.version, trace.context.trace_id
            self.exemplars.note(row.name, version, trace.response_s, trace_id)

    def sweep(self, now: float) -> None:
        """Send the sampled requests, and once a second the slow ones."""
        self._send_sampled()
        if now < self._due:
            return
        self._due = now + SEND_S
        self.send()
        for slow in self._slow.values():
            slow.renew(now)

    def send(self) -> None:
        """Send all that are known."""
        self._send_sampled()
        for slow in self._slow.values():
            for traced in slow.take():
                self._port.send(traced)

    def _send_sampled(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._port.send(*waiting)

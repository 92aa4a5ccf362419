# SPDX-License-Identifier: Apache-2.0
"""The traces of one front-end: which requests have one, and where they go."""

from __future__ import annotations

from http import HTTPStatus
from random import random
from time import monotonic, time
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from servekit.frontend.metrics.exemplars import Exemplars
from servekit.frontend.metrics.trace_counts import TraceCounts
from servekit.frontend.tracing.observer_port import MessageTooLarge
from servekit.frontend.tracing.sampler import TraceSampler
from servekit.frontend.tracing.slow import SlowRequests
from servekit.frontend.tracing.trace import RequestTrace
from servekit.ipc.trace_notes import TraceNotes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.sampling import TraceSampling
    from servekit.frontend.tracing.observer_port import ObserverPort
    from servekit.frontend.tracing.trace import FinishedTrace
    from servekit.ipc.table import ModelRow
    from servekit.ipc.trace_notes import BatchNote, SentVisit

__all__ = ["Traces"]

MAX_WAITING = 128  #: sampled requests that are sent together; ten times a second are fewer
SEND_S = 1.0  #: how often slow requests are sent
LATE_S = 0.005  #: a request that arrives faster is not slow for that


class Traces:
    """There is one while a plugin implements ``request_traced``."""

    def __init__(
        self, port: ObserverPort, keep_bodies: int = 0, counts: TraceCounts | None = None
    ) -> None:
        """Send to *port*. No request is sampled before ``sample_by`` is called.

        :param keep_bodies: size of the largest body that is sent; 0: none.
        :param counts: of the traces that are sent, and of those that are not.
        """
        self._port, self._keep_bodies = port, keep_bodies
        self._counts = counts or TraceCounts()
        self.exemplars = Exemplars()  #: the sampled requests that ``/metrics`` shows
        self.sampler: TraceSampler | None = None  #: if requests may be sampled
        self._waiting: list[FinishedTrace] = []  #: sampled requests that are over
        self._slow: WeakValueDictionary[str, SlowRequests] = WeakValueDictionary()
        self._due = 0.0  #: ``monotonic``: when slow requests are sent next
        self.live = 0  #: traces that have begun and are not over

    def sample_by(self, sampling: TraceSampling) -> None:
        """Sample requests from now on."""
        self.sampler = TraceSampler(sampling, self._counts)

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
        """Trace *request* if it is chosen."""
        if self.sampler is None:
            return
        is_drawn = random() < self.sampler.share  # noqa: S311 - a sample, no secret
        if (chosen := self.sampler.choose(request, is_drawn=is_drawn)) is not None:
            self.join(exchange, request, chosen)

    def join(self, exchange: Exchange, request: HttpRequest, chosen: tuple[str, str]) -> None:
        """Trace *request*, which is sampled; *chosen* is from ``TraceSampler.choose``."""
        self.follow(exchange, request, monotonic()).join(*chosen)

    def take(self, trace: RequestTrace, now: float) -> None:
        """Send *trace* if it is sampled, or keep it if it is slow."""
        self.live -= 1
        route = trace.request.route
        if route is None:  # not a prediction
            return
        if trace.is_sampled:
            self._note_exemplar(trace, route.row)
            self._waiting.append(trace.finished(now, self._keep_bodies))
            if self._keep_bodies or len(self._waiting) >= MAX_WAITING:
                self._send_sampled()
            return
        slow = self._slow.get(route.row.name)
        if slow is not None and now - trace.began >= slow.limit_s:
            slow.add(now - trace.began, trace.finished(now, self._keep_bodies))

    def _note_exemplar(self, trace: RequestTrace, row: ModelRow) -> None:
        if trace.status == HTTPStatus.OK:
            version = trace.version or row.version
            self.exemplars.note(row.name, version, trace.response_s, trace.traceparent)

    def sweep(self, now: float) -> None:
        """Send the sampled requests, and once a second the slow ones."""
        if self.sampler is not None:
            self.sampler.renew(now)
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
            self._send(slow.take())

    def _send_sampled(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._send(waiting)

    def _send(self, finished: Sequence[FinishedTrace]) -> None:
        """Send *finished*, in several messages if they are too large for one."""
        if not finished:
            return
        try:
            is_sent = self._port.send(message_of(finished))
        except MessageTooLarge:
            middle = len(finished) // 2
            if middle:
                self._send(finished[:middle])
                self._send(finished[middle:])
                return
            is_sent = False
        self._counts.count("sent" if is_sent else "dropped", len(finished))
        if not is_sent and self.sampler is not None:
            self.sampler.hold(monotonic())


def message_of(finished: Sequence[FinishedTrace]) -> TraceNotes:
    """Return what the observer gets; a batch of several requests is in it once."""
    batches: list[BatchNote] = []
    places: dict[int, int] = {}
    visits: list[list[SentVisit]] = []
    for each in finished:
        own: list[SentVisit] = []
        for queued_at, left_at, batch in each.visits:
            place = -1 if batch is None else places.setdefault(id(batch), len(batches))
            if batch is not None and place == len(batches):
                batches.append(batch)
            own.append((queued_at, left_at, place))
        visits.append(own)
    return TraceNotes(time() - monotonic(), [each.note for each in finished], visits, batches)

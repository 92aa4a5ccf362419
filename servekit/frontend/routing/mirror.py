# SPDX-License-Identifier: Apache-2.0
"""Copies of requests for a version that is tried out: its answers are compared, and never given.

A copy begins after the request itself, and only while the queues of that version are less than half
full. What cannot be copied or compared is counted as dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from msgspec import structs

from servekit.extension.background import NoWriter
from servekit.extension.base_exchange import BaseExchange
from servekit.frontend.routing.indirect import IndirectRoute

if TYPE_CHECKING:
    from typing import Any

    from servekit.extension.exchange import BodyWriter, Exchange
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.frontend.routing.split import Split
    from servekit.ipc.batches import ProtocolCall

__all__ = ["COPY", "KEEP", "MirrorRoute"]

COPY, KEEP = "copy", "keep"  #: the choices of the split of a mirror
MAX_BYTES = 1 << 20  #: larger bodies are not copied; this much of an answer is compared
#: statuses of responses that were due to the load, and say nothing of the version
BUSY = frozenset((429, 503, 504, 507))


class MirrorRoute(IndirectRoute):
    """A path where a share of the requests is also sent to another version."""

    __slots__ = ("_loop", "_sample", "_shadow")

    def __init__(
        self, route: PredictionRoute, shadow: PredictionRoute, sample: Split, loop: EventLoop
    ) -> None:
        """Lead to *route*, and send copies of the requests that *sample* chooses to *shadow*."""
        super().__init__(route)
        self._shadow, self._sample, self._loop = shadow, sample, loop

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction for *request*, then perhaps one for a copy of it."""
        if self._sample.choose(request.headers) == COPY:
            if self._may_copy(request, call):
                self._copy(exchange, request, call)
            else:
                self._shadow.metrics.count_mirrored("dropped")
        self._route.begin(exchange, request, call)

    def _may_copy(self, request: HttpRequest, call: ProtocolCall | None) -> bool:
        is_stream = request.accepts_stream or (call is not None and call.is_stream)
        is_small = len(request.content) <= MAX_BYTES
        return is_small and not is_stream and self._shadow.has_spare_room

    def _copy(self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None) -> None:
        body = self._shadow.bodies.lay([request.content])
        copy = structs.replace(request, body=body, route=self._shadow)
        comparison = Comparison(self._shadow.metrics)
        exchange.add_filter(comparison.see_given)
        exchange.add_observer(comparison.see_end)
        shadow = ShadowExchange(exchange, comparison)
        self._loop.run_callback(self._begin_copy, shadow, copy, call)

    def _begin_copy(
        self, exchange: ShadowExchange, copy: HttpRequest, call: ProtocolCall | None
    ) -> None:
        if exchange.comparison.is_over:
            copy.discard()
        else:
            self._shadow.begin(exchange, copy, call)


class ShadowExchange(BaseExchange):
    """Takes the response to a copy."""

    def __init__(self, client: Exchange, comparison: Comparison) -> None:
        """Hand the response to *comparison*; the copy is of a request of *client*."""
        super().__init__(client.peer)
        self.is_encrypted, self.subject = client.is_encrypted, client.subject
        self.protocol = client.protocol
        self.comparison = comparison

    def send(self, response: HttpResponse) -> None:
        """Compare *response*, and drop it."""
        self.is_closed = True
        self.comparison.see(response)
        response.discard()

    def begin_stream(self, _stream: Any, response: HttpResponse) -> BodyWriter:
        """Drop the stream: it cannot be compared."""
        self.is_closed = True
        self.comparison.see(response)
        if self.prediction is not None:
            self.prediction.cancel()
        return NoWriter()

    def end_stream(self, _size: int, _status: int = 200) -> None:
        """Do nothing: the stream was dropped."""

    def reset(self) -> None:
        """Do nothing: the stream was dropped."""


class Seen(NamedTuple):
    """A response, as far as it is compared."""

    status: int
    size: int
    checksum: int


class Comparison:
    """Compares the response that a client gets with the one to the copy, whichever comes first."""

    __slots__ = ("_first", "_metrics", "is_over")

    def __init__(self, metrics: ModelMetrics) -> None:
        """Count the result in *metrics*, those of the version that is tried out."""
        self._metrics = metrics
        self._first: Seen | None = None
        self.is_over = False

    def see_given(self, response: HttpResponse) -> HttpResponse:
        """Look at the response that the client gets."""
        self.see(response)
        return response

    def see_end(self, status: int | None, _size: int) -> None:
        """Give up if the client has disconnected: it gets no response."""
        if status is None:
            self._end("dropped")

    def see(self, response: HttpResponse) -> None:
        """Look at one of the two responses."""
        if self.is_over:
            return
        if response.is_streamed or response.status in BUSY:
            self._end("dropped")
            return
        body = response.body
        seen = Seen(response.status, len(body), crc32(memoryview(body)[:MAX_BYTES]))
        if self._first is None:
            self._first = seen
        elif self._first.status != seen.status:
            self._end("other_status")
        else:
            self._end("equal" if self._first == seen else "other_body")

    def _end(self, result: str) -> None:
        if not self.is_over:
            self.is_over = True
            self._metrics.count_mirrored(result)

# SPDX-License-Identifier: Apache-2.0
"""The request of one stream as it arrives, a large body into shared memory; and its clock."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import ClientTooSlow, QueueFull
from servekit.frontend.http.expectations import refusal_of_type
from servekit.frontend.http.upload import BodyClock, Upload
from servekit.frontend.http2.protocol import WINDOW_BYTES, MalformedRequest
from servekit.frontend.http2.request_builder import StreamCollector

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.http2.exchange import Exchange

__all__ = ["Incoming"]

#: of a stream whose body has room: more on its way than this brings little
WIDE_BYTES = 1 << 20


class Incoming:
    """Belongs to an ``Exchange``, and gives it the request."""

    __slots__ = (
        "_clock",
        "_collector",
        "_exchange",
        "_is_whole",
        "_upload",
        "_withheld",
        "is_under_way",
        "received",
    )

    def __init__(self, exchange: Exchange) -> None:
        """Expect a request."""
        host = exchange.host
        guard = host.guard(exchange) if host.guard is not None else None
        self._exchange = exchange
        self._collector = StreamCollector(host.settings, guard, host.pressure)
        self._upload: Upload | None = None
        self.received = 0  #: bytes of the body, those that nobody waits for too
        self._withheld = 0  #: bytes that the client may not send again before there is room
        self._clock: BodyClock | None = None  #: of the body
        self._is_whole = False  #: but may wait for room
        self.is_under_way = True  #: somebody waits for it, and it has not been handed over

    @property
    def method(self) -> bytes:
        """As far as it is known."""
        return self._collector.method

    @property
    def target(self) -> bytes:
        """As far as it is known."""
        return self._collector.target

    @property
    def headers(self) -> dict[bytes, bytes]:
        """As far as they are known."""
        return self._collector.headers

    @property
    def _waits_for_room(self) -> bool:
        upload = self._upload or self._collector.upload
        return upload is not None and upload.is_waiting

    def lateness(self) -> ServekitError:
        """Return what to tell a client whose time is over."""
        if self._waits_for_room:
            return QueueFull()
        return ClientTooSlow("the request did not arrive whole in time")

    def take_fields(self, fields: Any, *, is_end: bool) -> ServekitError | None:
        """Take the header section; return why it is refused already, if so.

        :raises MalformedRequest: it is none.
        :raises RequestError: a limit or a rule of HTTP refuses it.
        """
        self._collector.take_fields(fields, is_end=is_end)
        return self._collector.refusal

    def await_body(self) -> None:
        """Start the clock of the body; a large one goes by another way."""
        collector, exchange = self._collector, self._exchange
        self._restart_clock()
        if collector.wants_continue and self._is_answered():
            return
        size = collector.declared_bytes
        if size < exchange.host.settings.large_body:
            return
        batcher = exchange.host.find(collector.method, collector.target, collector.headers)
        if batcher is not None and batcher.bodies.fits(size):
            head, begun = collector.take_head()
            self._upload = Upload(batcher, head, begun, size)
            self._attend(self._upload)
            if not self._upload.is_waiting:
                self._widen()

    def _is_answered(self) -> bool:
        """Ask for the body that a client holds back; or answer without it, and return that."""
        collector, exchange = self._collector, self._exchange
        way = exchange.host.find(collector.method, collector.target, collector.headers)
        if way is None:  # the Flask app reads no bodies
            self.is_under_way = False
            exchange.begin(collector.take_head()[0])
            return True
        refusal = refusal_of_type(way, collector.headers)
        if refusal is not None:
            exchange.refuse(refusal)
            return True
        exchange.send_continue()
        return False

    def _look_at_size(self) -> None:
        """Lay a body that grows, and has become large, where a worker can read it."""
        collector, host = self._collector, self._exchange.host
        settings = host.settings
        if collector.upload is not None or collector.declared_bytes >= 0:
            return
        if collector.body_bytes >= settings.large_body:
            batcher = host.find(collector.method, collector.target, collector.headers)
            if batcher is not None and batcher.bodies.fits(settings.max_body):
                self._attend(collector.start_upload(batcher))

    def _attend(self, upload: Upload) -> None:
        upload.on_room, upload.shed = self._on_room, self._exchange.expire

    def hear(self, size: int) -> None:
        """*size* bytes have come of a frame that is not whole: the client is at it."""
        if self.is_under_way and not self._waits_for_room:
            self._set_clock(monotonic(), size)

    def _set_clock(self, now: float, more: int = 0) -> None:
        assert self._clock is not None
        self._exchange.expires = self._clock.expires(now, self.received + more)

    def _restart_clock(self) -> None:
        now = monotonic()
        self._clock = BodyClock(self._exchange.host.settings, now)
        self._set_clock(now)

    def _on_room(self) -> None:
        self._restart_clock()  # the wait was not the client's fault
        self._exchange.streams.acknowledge(self._exchange.stream_id, self._withheld)
        self._withheld = 0
        if self._is_whole:
            self._hand_over()
        else:
            self._widen()

    def _widen(self) -> None:
        """Let the client send more at once: there is room."""
        if self._upload is None:
            return  # nobody said how much will come
        wanted = min(WIDE_BYTES, self._upload.size)
        if wanted > WINDOW_BYTES:
            self._exchange.streams.widen(self._exchange.stream_id, wanted - WINDOW_BYTES)

    def take(self, data: bytes, counted: int) -> None:
        """Take a piece of the body, for which flow control counts *counted* bytes.

        :raises BodyTooLarge: with it the body is.
        """
        if self._waits_for_room:
            self._withheld += counted
        else:
            self._exchange.streams.acknowledge(self._exchange.stream_id, counted)
        self.received += len(data)
        if not self.is_under_way:
            return
        if self._upload is not None:
            self._upload.take(data)
        else:
            self._collector.on_body(data)
            self._look_at_size()
        self._set_clock(monotonic())

    def end(self) -> None:
        """Hand the request over, as soon as there is room for it.

        :raises MalformedRequest: it is not as long as was said.
        """
        upload = self._upload
        if not self.is_under_way:
            return
        if upload is None:
            self.is_under_way = False
            self._exchange.begin(self._collector.end())
        elif upload.filled < upload.size:
            raise MalformedRequest("the body is not as long as Content-Length says")
        else:
            self._is_whole = True
            self._hand_over()

    def _hand_over(self) -> None:
        """Give the exchange a request that lies in shared memory."""
        upload = self._upload
        if upload is not None and upload.slab is not None:
            self._upload, self.is_under_way = None, False
            self._exchange.begin(upload.finish())

    def abandon(self) -> None:
        """Nobody will wait for the rest."""
        self.is_under_way = False
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.abandon()
        self._collector.abandon()

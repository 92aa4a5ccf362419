# SPDX-License-Identifier: Apache-2.0
"""One stream: its request in, its answer out. What a ``Connection`` is to HTTP/1.1's requests."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from h2.errors import ErrorCodes

from servekit.errors import ServekitError
from servekit.extension.exchange import BaseExchange
from servekit.extension.http import HttpRequest
from servekit.frontend.http.upload import BodyClock
from servekit.frontend.http2.hpack_encoder import CONTINUE, fields_of
from servekit.frontend.http2.request_body import Incoming
from servekit.frontend.http2.send_queue import Outgoing

if TYPE_CHECKING:
    from servekit.extension.exchange import OutputStream
    from servekit.extension.http import HttpResponse
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http2.streams import Streams

__all__ = ["Exchange"]

SEND_LOOK_S = 0.25  #: how often a client that is slow to take its answer is looked at
LINGER_S = 2.0  #: longest pause in what is left of a refused body
NEVER = float("inf")


class Exchange(BaseExchange):
    """One stream of a connection."""

    __slots__ = (
        "_answered_at",
        "_clock",
        "_incoming",
        "_is_head",
        "_is_open",
        "expires",
        "host",
        "is_due",
        "outgoing",
        "stream_id",
        "streams",
    )

    def __init__(self, streams: Streams, stream_id: int) -> None:
        """Be the stream *stream_id*, which has just begun."""
        super().__init__(streams.connection.peer)
        self.streams = streams
        self.host: Host = streams.host
        self.stream_id = stream_id
        self.outgoing = Outgoing(self._on_more, self.host.pressure, self.reset)
        self._answered_at = 0.0  #: ``monotonic``: all of it is out
        self._clock: BodyClock | None = None  #: of what comes after the answer
        self._is_head = False
        self._is_open = True  #: the client has more to send
        self.is_due = False  #: it waits for its turn to write
        self.expires = NEVER
        self._incoming = Incoming(self)

    @property
    def is_encrypted(self) -> bool:
        """It is TLS."""
        return self.streams.connection.is_encrypted

    @property
    def subject(self) -> str:
        """Of the client's certificate; "" without one."""
        return self.streams.connection.subject

    @property
    def target(self) -> bytes:
        """Of the request that has begun."""
        return self._incoming.target

    # ------------------------------------------------------------ the request

    def open(self, fields: Any, *, is_end: bool) -> None:
        """Take the header section; refuse what can be refused before the body."""
        try:
            refusal = self._incoming.take_fields(fields, is_end=is_end)
        except ServekitError as error:
            refusal = error
        self._is_open = not is_end
        if refusal is not None:
            self.refuse(refusal)
        elif is_end:
            self._incoming.end()
        else:
            self._incoming.await_body()

    def take(self, data: bytes, counted: int) -> None:
        """Take a piece of the body.

        :param counted: bytes that flow control counts for it.
        """
        try:
            self._incoming.take(data, counted)
        except ServekitError as error:
            self.refuse(error)
        if self._answered_at:
            self._linger()

    def take_end(self) -> None:
        """The client has sent all: have the request answered.

        :raises MalformedRequest: it is none.
        """
        if self._answered_at:
            self.close()
        elif self._is_open:
            self._is_open = False
            self._incoming.end()

    def hear(self, size: int) -> None:
        """*size* bytes have come of a frame that is not whole."""
        self._incoming.hear(size)

    def begin(self, request: HttpRequest) -> None:
        """Have *request* answered."""
        self.expires = NEVER
        self._is_head = request.method == b"HEAD"
        self.host.handle(self, request)

    def send_continue(self) -> None:
        """Tell the client that its body is awaited."""
        self.streams.send_fields(self.stream_id, CONTINUE)

    def refuse(self, error: ServekitError) -> None:
        """Answer a request that we will not follow to its end."""
        incoming = self._incoming
        incoming.abandon()
        self.begin(
            HttpRequest(incoming.method, incoming.target, incoming.headers, b"", True, "", error)
        )

    # ------------------------------------------------------------ the response

    def send(self, response: HttpResponse) -> None:
        """Send *response*."""
        body = b"" if self._is_head else response.body  # RFC 9110 9.3.2
        self.outgoing.begin(fields_of(response, self.host.date.value))
        self.outgoing.write(body, response.release)
        self.outgoing.end()
        self._end_response(response.status, len(body))

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> Outgoing:
        """Send the head of *response*, and return what sends its body; then ``end_stream``."""
        self.stream = stream
        if self.filters:
            response = self.filter_stream(response)
        self.outgoing.begin(fields_of(response, self.host.date.value))
        return self.outgoing

    def end_stream(self, size: int, status: int = 200) -> None:
        """The body has been handed over, *size* bytes of it."""
        self._end_response(status, size)

    def _end_response(self, status: int, size: int) -> None:
        if self.observers is not None:
            self.observe_end(status, size)
        self.stream = self.prediction = self.filters = None

    def _on_more(self) -> None:
        """Have what there is sent in its turn, and look at the client meanwhile."""
        if self.expires == NEVER:
            now = monotonic()
            self.outgoing.start_clock(now)
            self.expires = now + SEND_LOOK_S
        self.streams.turns.wake(self)

    # ------------------------------------------------------------ its end

    def expire(self) -> None:
        """The client let a timeout pass, or there was no room for its body in time."""
        settings, now = self.host.settings, monotonic()
        if self._answered_at:
            self.reset(ErrorCodes.NO_ERROR)  # no need to send the rest (RFC 9113 8.1)
        elif self._incoming.is_under_way:
            self.refuse(self._incoming.lateness())
        elif not self.outgoing.is_waiting:
            self.expires = NEVER  # of a stream that has nothing to say at present
        elif self.outgoing.is_stuck(now, settings.send_timeout, settings.body_rate):
            self.reset()
        else:
            self.expires = now + SEND_LOOK_S

    def close_if_idle(self, _now: float) -> None:
        """It never is: the connection closes when none is left."""

    def finish(self) -> None:
        """The answer is out; a client that still sends its request gets the chance to read it."""
        self._answered_at = monotonic()
        if self._is_open:
            self._clock = BodyClock(self.host.settings, self._answered_at)
            self._linger()
        else:
            self.close()

    def _linger(self) -> None:
        """Read on: not all clients look for an answer before they have sent all.

        One that goes on at the pace of a body may send as much again as would have been taken.
        """
        settings, now, received = self.host.settings, monotonic(), self._incoming.received
        if received > 2 * settings.max_body:
            self.reset(ErrorCodes.NO_ERROR)
        else:
            assert self._clock is not None
            self.expires = min(now + LINGER_S, self._clock.expires(now, received))

    def reset(self, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """Say that no more will come, and forget the stream."""
        if not self.is_closed:
            self.streams.reset_stream(self.stream_id, code)
            self.close()

    def close(self) -> None:
        """Forget the stream; nobody waits for the answer any more."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.prediction is not None:
            self.prediction.cancel()
            self.prediction = None
        if self.observers is not None:
            self.observe_end(None, 0)
        self._incoming.abandon()
        del self._incoming  # a circle: no need to have the collector look for it
        self.outgoing.close()
        self.streams.forget(self)

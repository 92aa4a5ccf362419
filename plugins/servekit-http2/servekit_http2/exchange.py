# SPDX-License-Identifier: Apache-2.0
"""The exchange of one stream: its request in, its response out."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from servekit.errors import ServekitError
from servekit.frontend.transport import BaseExchange, BodyClock, watched
from servekit_http2.hpack_encoder import fields_of
from servekit_http2.incoming import IncomingRequest
from servekit_http2.send_queue import SendQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension import HttpRequest, HttpResponse
    from servekit.frontend.transport import BodyWriter, Host, OutputStream
    from servekit_http2.interfaces import StreamOwner

__all__ = ["LINGER_S", "NEVER", "SEND_POLL_S", "Http2Exchange"]

SEND_POLL_S = 0.25  #: how often to check a client that is slow to take its response
LINGER_S = 2.0  #: longest pause in the rest of a refused body
NEVER = float("inf")


class Http2Exchange(BaseExchange):
    """One stream of a connection."""

    tells_when_sent = True

    __slots__ = (
        "_began",
        "_clock",
        "_incoming",
        "_is_head",
        "_is_open",
        "_responded_at",
        "_streams",
        "expires",
        "host",
        "is_due",
        "is_encrypted",
        "outgoing",
        "stream_id",
    )

    def __init__(self, streams: StreamOwner, stream_id: int) -> None:
        """Begin the stream *stream_id*."""
        super().__init__(streams.peer)
        self._streams = streams
        self.host: Host = streams.host
        self.is_encrypted = streams.is_encrypted
        self.stream_id = stream_id
        self.outgoing = SendQueue(self._on_more, self.host.pressure, self.reset)
        self._began = 0.0  #: ``monotonic``: the header section of a request with a body
        self._responded_at = 0.0  #: ``monotonic``: when the whole response was out
        self._clock: BodyClock | None = None  #: of a body that continues after the response
        self._is_head = False
        self._is_open = True  #: the client has more to send
        self.is_due = False  #: it waits for its turn to write
        self.expires = NEVER
        guard = self.host.guard(self) if self.host.guard is not None else None
        self._incoming = IncomingRequest(streams, stream_id, guard, self._on_room, self.expire)

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""
        return self._streams.subject

    # ------------------------------------------------------------ the request

    def open(self, fields: Iterable[tuple[bytes, bytes]], *, is_end: bool) -> None:
        """Take the header section; refuse what can be refused before the body."""
        incoming = self._incoming
        try:
            refusal = incoming.open(fields, is_end=is_end)
        except ServekitError as error:
            refusal = error
        self._is_open = not is_end
        if refusal is not None:
            self._refuse(refusal)
        elif is_end:
            self._begin(incoming.end())
        else:
            self._began = monotonic()
            request = incoming.await_body()
            self.expires = incoming.expires()
            if request is not None:  # it needs no body
                self._begin(request)

    def _on_room(self) -> None:
        self.expires = self._incoming.expires()

    def take(self, data: bytes, counted: int, *, is_last: bool) -> None:
        """Take a piece of the body.

        :param counted: bytes that flow control counts for it.
        """
        incoming = self._incoming
        try:
            if incoming.take(data, counted, is_last=is_last):
                self.expires = incoming.expires()
        except ServekitError as error:
            self._refuse(error)
        if self._responded_at:
            self._linger()

    def take_end(self) -> None:
        """Let the host answer the request: the client has sent everything.

        :raises MalformedRequest: it is not as long as it says.
        """
        if self._responded_at:
            self.close()
        elif self._is_open:
            self._is_open = False
            if self._incoming.is_awaited:
                self._begin(self._incoming.end())

    def take_part(self, size: int) -> None:
        """Count *size* bytes of a frame that is not whole."""
        if self._incoming.is_awaited and not self._incoming.waits_for_room:
            self.expires = self._incoming.expires(size)

    def _begin(self, request: HttpRequest) -> None:
        self.expires = NEVER
        self._is_head = request.method == b"HEAD"
        self.request = request
        if self._began:
            request.began = self._began
            if self.host.traces is not None:
                self.host.traces.follow_late(self, request)
        self.host.handle(self, request)

    def _refuse(self, error: ServekitError) -> None:
        self._begin(self._incoming.refuse(error))

    # ------------------------------------------------------------ the response

    def send(self, response: HttpResponse) -> None:
        """Send *response*."""
        body = b"" if self._is_head else response.body  # RFC 9110 9.3.2
        self.outgoing.begin(fields_of(response, self.host.date.value))
        self.outgoing.write(body, response.release)
        self.outgoing.end()
        self.end_stream(len(body), response.status)

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Send the head of *response*, and return what sends its body; then ``end_stream``."""
        self.stream = stream
        if self.filters:
            response = self.filter_stream(response)
        self.outgoing.begin(fields_of(response, self.host.date.value))
        return watched(response, self.outgoing)

    def end_stream(self, size: int, status: int = 200) -> None:
        """End the response: its body has been handed over, *size* bytes of it."""
        if self.observers is not None:
            self.observe_end(status, size)
        self.stream = self.prediction = self.filters = self.request = None

    def _on_more(self) -> None:
        """Send the response in its turn, and check the client meanwhile."""
        if self.expires == NEVER:
            now = monotonic()
            self.outgoing.start_clock(now)
            self.expires = now + SEND_POLL_S
        self._streams.wake(self)

    # ------------------------------------------------------------ the end

    def expire(self) -> None:
        """Handle a timeout of the client, or a body that waited too long for room."""
        settings, now = self.host.settings, monotonic()
        if self._responded_at:
            self.reset(ErrorCodes.NO_ERROR)  # no need to send the rest (RFC 9113 8.1)
        elif self._incoming.is_awaited:
            self._refuse(self._incoming.lateness())
        elif not self.outgoing.is_waiting:
            self.expires = NEVER  # a stream that has nothing to send at present
        elif self.outgoing.is_stuck(now, settings.send_timeout, settings.body_rate):
            self.reset()
        else:
            self.expires = now + SEND_POLL_S

    def close_if_idle(self, _now: float) -> None:
        """Do nothing: the connection closes when no stream is left."""

    def finish(self) -> None:
        """The response is out; a client that still sends its request gets to read it."""
        self._responded_at = monotonic()
        self._end_trace()
        if self._is_open:
            self._clock = BodyClock(self.host.settings, self._responded_at)
            self._linger()
        else:
            self.close()

    def _end_trace(self) -> None:
        """End the trace: the connection has all of the response, or nobody waits for it."""
        trace, self.trace = self.trace, None
        if trace is not None:
            trace.finish()

    def _linger(self) -> None:
        """Read on: not all clients look for a response before they have sent everything.

        One that keeps up the pace of a body may send twice as much as the limit.
        """
        settings, now, received = self.host.settings, monotonic(), self._incoming.received
        if received > 2 * settings.max_body:
            self.reset(ErrorCodes.NO_ERROR)
        else:
            assert self._clock is not None
            self.expires = min(now + LINGER_S, self._clock.expires(now, received))

    def reset(self, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """End the stream early, and forget it."""
        if not self.is_closed:
            self._streams.reset_stream(self.stream_id, code)
            self.close()

    def close(self) -> None:
        """Forget the stream; a prediction in progress is cancelled."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.prediction is not None:
            self.prediction.cancel()
            self.prediction = None
        if self.observers is not None:
            self.observe_end(None, 0)
        self._end_trace()
        self._incoming.abandon()
        del self._incoming  # the guard refers to us: spare the garbage collector the circle
        self.outgoing.close()
        self._streams.forget(self)

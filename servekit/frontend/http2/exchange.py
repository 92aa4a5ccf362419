# SPDX-License-Identifier: Apache-2.0
"""One stream: its request in, its answer out. What a ``Connection`` is to HTTP/1.1's requests."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from h2.errors import ErrorCodes

from servekit.errors import ServekitError
from servekit.frontend.exchange.response import CONTINUE, problem_answer
from servekit.frontend.http.upload import BodyClock
from servekit.frontend.http2.hpack_encoder import fields_of
from servekit.frontend.http2.request_body import Incoming
from servekit.frontend.http2.send_queue import Outgoing
from servekit.frontend.middleware.compression import VARY

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.batching.stream import StreamedAnswer
    from servekit.frontend.exchange.protocols import Awaited
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.http2.streams import Streams
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.frontend.server.management import Door

__all__ = ["Exchange"]

SEND_LOOK_S = 0.25  #: how often a client that is slow to take its answer is looked at
LINGER_S = 2.0  #: longest pause in what is left of a refused body
NEVER = float("inf")


class Exchange:
    """Stands where a ``Connection`` would for whoever answers the request."""

    __slots__ = (
        "_answered_at",
        "_clock",
        "_coding",
        "_extra_lines",
        "_incoming",
        "_is_head",
        "_is_open",
        "expires",
        "front_end",
        "is_closed",
        "is_due",
        "keep",
        "outgoing",
        "peer",
        "stream",
        "stream_id",
        "streams",
        "task",
    )

    def __init__(self, streams: Streams, stream_id: int) -> None:
        """Be the stream *stream_id*, which has just begun."""
        self.streams = streams
        self.front_end: FrontEnd | Door = streams.front_end
        self.peer = streams.connection.peer
        self.stream_id = stream_id
        self.outgoing = Outgoing(self._on_more, self.front_end.pressure, self.reset)
        self._extra_lines = self._coding = b""
        self._answered_at = 0.0  #: ``monotonic``: all of it is out
        self._clock: BodyClock | None = None  #: of what comes after the answer
        self._is_head = False
        self._is_open = True  #: the client has more to send
        self.is_closed = False
        self.is_due = False  #: it waits for its turn to write
        self.task: Awaited | None = None  #: the prediction being answered
        self.stream: StreamedAnswer | None = None  #: its answer, if that has begun and goes on
        #: of a cache: gets head and body of the answer, and returns the head
        self.keep: Callable[[bytes, bytes | memoryview], bytes] | None = None
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
        self._prepare(request.method, request.headers)
        compression = self.front_end.compression
        if compression is not None and b"content-encoding" in request.headers:
            compression.unpacker.route(self, request, request.batcher)
            return
        self.front_end.route(self, request, request.batcher)

    def _prepare(self, method: bytes, headers: dict[bytes, bytes]) -> None:
        self._is_head = method == b"HEAD"
        if self.front_end.cors is not None:
            self._extra_lines = self.front_end.cors.lines(headers)
        if self.front_end.compression is not None:
            self._coding = self.front_end.compression.choose(headers)

    def send_continue(self) -> None:
        """Tell the client that its body is awaited."""
        self.streams.send_fields(self.stream_id, fields_of(CONTINUE))

    def refuse(self, error: ServekitError) -> None:
        """Answer a request that we will not follow to its end."""
        self._incoming.abandon()
        self.expires = NEVER
        self._prepare(self._incoming.method, self._incoming.headers)
        self.answer_problem(error, self.front_end.next_request_id())

    # ------------------------------------------------------------ the answer

    def answer(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        """Send one answer; parameters as ``Connection.answer`` has them."""
        if self.is_closed:
            if release is not None:
                release()
            return
        if self.keep is not None:
            keep, self.keep = self.keep, None
            head = keep(head, body)
        compression = self.front_end.compression
        if compression is not None:
            coding, self._coding = self._coding, b""
            if coding and compression.is_worth(head, body):
                compression.answer(self, coding, head, body, release)
                return
            head += VARY
        self._send(head, body, release)

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Send the problem details of *error*."""
        if self.is_closed:
            return
        if self.stream is not None:
            self.stream.fail(error)
            return
        whole = problem_answer(error, request_id, self.front_end.heads.date, closes=False)
        head, _, body = whole.partition(b"\r\n\r\n")
        self._send(head + b"\r\n", b"" if self._is_head else body)  # RFC 9110 9.3.2

    def _send(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        self.outgoing.begin(fields_of(head + self._extra_lines))
        self.outgoing.write(body, release)
        self.outgoing.end()
        self.end_stream()

    def begin_stream(self, stream: StreamedAnswer, head: bytes) -> Outgoing:
        """Send the *head* of an answer, and return what writes its body; then ``end_stream``."""
        self.stream = stream
        self.outgoing.begin(fields_of(head + self._extra_lines))
        return self.outgoing

    def end_stream(self) -> None:
        """The answer is whole."""
        self.stream = self.task = self.keep = None

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
        settings, now = self.front_end.settings, monotonic()
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
            self._clock = BodyClock(self.front_end.settings, self._answered_at)
            self._linger()
        else:
            self.close()

    def _linger(self) -> None:
        """Read on: not all clients look for an answer before they have sent all.

        One that goes on at the pace of a body may send as much again as would have been taken.
        """
        settings, now, received = self.front_end.settings, monotonic(), self._incoming.received
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
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self._incoming.abandon()
        del self._incoming  # a circle: no need to have the collector look for it
        self.outgoing.close()
        self.streams.forget(self)

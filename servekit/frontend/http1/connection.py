# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection: requests in, answers out, one at a time and in order.

Runs as callbacks of the event loop, never blocks. A connection whose framing is in doubt
is answered once more and closed.
"""

from __future__ import annotations

import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

import gevent

from servekit.errors import RequestError
from servekit.frontend import http2
from servekit.frontend.batching.stream import StreamWriter
from servekit.frontend.exchange.response import CONTINUE, problem_answer
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http.writer import JOIN_BYTES, RESET, Sender
from servekit.frontend.http1.reader import Receiver
from servekit.frontend.middleware.compression import VARY

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.batching.stream import StreamedAnswer
    from servekit.frontend.exchange.protocols import Awaited
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.frontend.server.management import Door

__all__ = ["Connection"]

SEND_LOOK_S = 0.25  #: how often a client that is slow to take its answer is looked at
FRESH_S = 0.5  #: how long a client that asked nothing yet is waited for while draining
LINGER_S = 2.0  #: how long a refused upload is read on, so that the client sees the refusal
NEVER = float("inf")
H2 = "h2"  #: HTTP/2 to ALPN


class Connection:
    """Owns one accepted socket."""

    __slots__ = (
        "_accepted_at",
        "_coding",
        "_extra_lines",
        "_is_head",
        "_keeps_alive",
        "_receiver",
        "_refusal",
        "_sender",
        "_socket",
        "_version",
        "expires",
        "front_end",
        "is_busy",
        "is_closed",
        "is_refused",
        "keep",
        "peer",
        "stream",
        "task",
    )

    def __init__(
        self, sock: socket.socket | TlsSocket, peer: Any, front_end: FrontEnd | Door
    ) -> None:
        """Start reading *sock*, which is non-blocking and ours from now on."""
        self._socket = sock
        self.front_end = front_end
        self.peer = peer
        self._sender = Sender(sock, front_end, self._finish, self.close)
        self._refusal: ServekitError | None = None  #: to be said after the answers under way
        self._keeps_alive = True
        self._extra_lines = b""  #: header lines of the next answer, for a browser
        self._coding = b""  #: of the next answer
        self.is_busy = False  #: a request is being answered
        self.is_closed = False
        self.is_refused = False  #: nothing that still comes is a request
        self.task: Awaited | None = None  #: the prediction being answered
        self.stream: StreamedAnswer | None = None  #: its answer, if that has begun and goes on
        #: of a cache: gets head and body of the answer, and returns the head
        self.keep: Callable[[bytes, bytes | memoryview], bytes] | None = None
        self._version = ""  #: of the last request
        self._is_head = False  #: of the request being answered
        self._accepted_at = monotonic()
        self.expires = self._accepted_at + front_end.settings.header_timeout
        self._receiver = Receiver(sock, self)

    @property
    def is_encrypted(self) -> bool:
        """It is TLS."""
        return isinstance(self._socket, TlsSocket)

    @property
    def subject(self) -> str:
        """Of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    @property
    def target(self) -> bytes:
        """Of the request that has begun, as far as it has come."""
        return self._receiver.target

    @property
    def is_sending(self) -> bool:
        """The client has not taken all of its answer yet."""
        return bool(self._sender.rest)

    # ------------------------------------------------------------ what the receiver says

    def begin(self, request: HttpRequest) -> None:
        """Have *request* answered."""
        if not self._version and self._has_agreed_on_http2:  # RFC 7301 3.2
            self.is_refused, self._keeps_alive = True, False
            error = RequestError("HTTP/2 was agreed on by ALPN, and this is HTTP/1.1")
            self.answer_problem(error, self.front_end.next_request_id())
            return
        self.is_busy = True
        self.expires = NEVER
        self._keeps_alive = request.keeps_alive and not self.front_end.is_crowded
        self._version = request.version
        self._is_head = request.method == b"HEAD"
        if self.front_end.cors is not None:
            self._extra_lines = self.front_end.cors.lines(request.headers)
        if self.front_end.compression is not None:
            self._coding = self.front_end.compression.choose(request.headers)
            if b"content-encoding" in request.headers:
                self.front_end.compression.unpacker.route(self, request, request.batcher)
                return
        self.front_end.route(self, request, request.batcher)

    @property
    def _has_agreed_on_http2(self) -> bool:
        return isinstance(self._socket, TlsSocket) and self._socket.protocol == H2

    def send_continue(self) -> None:
        """Tell the client that its body is awaited."""
        self._sender.send(CONTINUE)

    def answer_early(self, request: HttpRequest) -> None:
        """Have *request* answered without its body, and take no other."""
        self.is_refused, request.keeps_alive = True, False
        self.begin(request)

    def turn_to_http2(self, data: bytes) -> bool:
        """Leave the socket to HTTP/2, whose preface was the first that came.

        :param data: what came behind it.
        :return: ``False`` where it is turned off, or requests of HTTP/1.1 came before.
        """
        if not self.front_end.settings.http2 or self._version or self._receiver.requests:
            return False
        if self.is_encrypted and not self._has_agreed_on_http2:
            return False
        self.is_busy = True
        self._receiver.pause()
        if http2.is_loaded():
            self._go_on_in_http2(data)
        else:
            gevent.spawn(self._load_http2, data)
        return True

    def _load_http2(self, data: bytes) -> None:
        """Load it beside the loop, which has others to serve meanwhile."""
        gevent.get_hub().threadpool.apply(http2.load)
        if not self.is_closed:
            self._go_on_in_http2(data)

    def _go_on_in_http2(self, data: bytes) -> None:
        from servekit.frontend.http2.connection import Http2Connection

        front_end = self.front_end
        self.is_closed = True  # for us: nothing is said, and the socket stays open
        self._receiver.close()
        front_end.connections.discard(self)
        successor = Http2Connection(self._socket, self.peer, front_end)
        front_end.add(successor)
        successor.feed(data)

    def refuse(self, error: ServekitError) -> None:
        """Answer a request that we will not follow to its end, and take no other."""
        self.is_refused = True
        self._receiver.abandon()
        if self.is_busy or self._sender.rest or self._receiver.requests:
            self._refusal = error  # those before it come first
            self._receiver.pause()
        elif not self.is_closed:
            self._keeps_alive = False
            self._is_head = self._receiver.method == b"HEAD"
            if self.front_end.cors is not None:
                self._extra_lines = self.front_end.cors.lines(self._receiver.headers)
            self.answer_problem(error, self.front_end.next_request_id())

    def on_end(self) -> None:
        """The client will send no more: its task is dropped unless a worker has it already.

        Who takes a stream and closes that side has gone.
        """
        is_queued = self.task is not None and not self.task.is_sent
        if is_queued or self.stream or not (self.is_busy or self._sender.rest):
            self.close()
        elif self.task is not None:
            self.task.cancel()  # the worker may stop early; what it answers is still written

    # ------------------------------------------------------------ answer -> bytes

    def answer(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        """Write one answer.

        :param head: the status line and header lines, ``Content-Length`` the last, without the
            empty line.
        :param release: called once *body* is out, or nobody will read it.
        """
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
                compression.answer(self, coding, head, body, release)  # which calls us again
                return
            head += VARY
        if not self._keeps_alive or (self.front_end.is_draining and not self._receiver.requests):
            self._keeps_alive = False
            head += b"Connection: close\r\n"
        elif self._version == "1.0":
            head += b"Connection: keep-alive\r\n"
        if self._extra_lines:
            head += self._extra_lines
        if release is None and len(body) < JOIN_BYTES:
            self._sender.send(b"%b\r\n%b" % (head, body))  # type: ignore[str-format]  # %b takes any buffer
        else:
            self._sender.send_with(head + b"\r\n", body, release)
        self._finish()

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Write the problem details of *error*."""
        if self.is_closed:
            return
        if self.stream is not None:
            self.stream.fail(error)
            return
        front_end = self.front_end
        if front_end.pressure.is_full or (front_end.is_draining and not self._receiver.requests):
            self._keeps_alive = False
        lines = front_end.heads.date + self._extra_lines
        whole = problem_answer(error, request_id, lines, closes=not self._keeps_alive)
        if self._is_head:  # its answer has no body (RFC 9110 9.3.2)
            whole = whole[: whole.index(b"\r\n\r\n") + 4]
        self._sender.send(whole)
        self._finish()

    def begin_stream(self, stream: StreamedAnswer, head: bytes) -> StreamWriter:
        """Write the *head* of an answer, and return what writes its body; then ``end_stream``."""
        self.stream = stream
        is_chunked = self._version != "1.0"
        if is_chunked:
            head += b"Transfer-Encoding: chunked\r\n"
        if not (is_chunked and self._keeps_alive) or self.front_end.is_draining:
            self._keeps_alive = False
            head += b"Connection: close\r\n"
        writer = StreamWriter(self._sender, is_chunked=is_chunked)
        self._sender.send(head + self._extra_lines + b"\r\n")
        return writer

    def end_stream(self) -> None:
        """The body is out, or waits to be."""
        self.stream = None
        self._sender.on_flushed = self._finish
        self._finish()

    def _finish(self) -> None:
        """The answer is out, or waits to be: take the next request, or close."""
        self.is_busy = False
        self.task = self.keep = None
        if self.is_closed:
            return
        receiver = self._receiver
        if self._sender.rest:
            now = monotonic()
            self._sender.start_clock(now)
            self.expires = now + SEND_LOOK_S
            receiver.pause()  # the sender calls us again
        elif not self._keeps_alive:
            self._end()
        elif receiver.requests:
            self.is_busy = True  # by way of the loop: a long pipeline must not recurse
            self.front_end.loop.run_callback(self.begin, receiver.requests.popleft())
        elif self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self.refuse(refusal)
        elif receiver.is_at_end:
            self.close()
        else:
            self.expires = monotonic() + self.front_end.settings.keep_alive
            receiver.go_on()

    # ------------------------------------------------------------ the connection's end

    def _end(self) -> None:
        """Close after our last answer; a client still sending gets the chance to read it."""
        if not self.is_refused or self._receiver.is_at_end:
            self.close()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self.expires = monotonic() + LINGER_S
        self._receiver.resume()

    def expire(self) -> None:
        """The client let a timeout pass, or there was no room for its body in time."""
        if self._sender.rest:
            self._expire_answer()
        elif self.is_refused or (error := self._receiver.lateness()) is None:
            self.close()
        else:
            self.refuse(error)

    def _expire_answer(self) -> None:
        settings, now = self.front_end.settings, monotonic()
        if self._sender.is_stuck(now, settings.send_timeout, settings.body_rate):
            self.reset()
        else:
            self.expires = now + SEND_LOOK_S

    def reset(self) -> None:
        """Close at once, and free what the kernel holds of the answer."""
        if not self.is_closed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.close()

    def close(self) -> None:
        """Close at once; nobody waits for the answer any more."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self._receiver.close()
        self._sender.close()
        self._socket.close()
        self.front_end.connections.discard(self)

    def close_if_idle(self, now: float) -> None:
        """Close unless a request is under way, or has come by now; one that is will be the last.

        A client that has just connected gets the time to ask.
        """
        is_fresh = not self._version and now < self._accepted_at + FRESH_S
        if not self._is_under_way and not is_fresh:
            self._receiver.look()
            if not self._is_under_way:
                self.close()

    @property
    def _is_under_way(self) -> bool:
        return bool(self.is_busy or self._sender.rest or self._receiver.is_in_request)

# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection: requests in, answers out, one at a time and in order.

Runs as callbacks of the event loop, never blocks. A connection whose framing is in doubt
is answered once more and closed.
"""

from __future__ import annotations

import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import RequestError
from servekit.extension.exchange import BaseExchange
from servekit.extension.http import HttpRequest
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http.writer import JOIN_BYTES, RESET, Sender
from servekit.frontend.http1.head import CONTINUE
from servekit.frontend.http1.reader import Receiver
from servekit.frontend.http1.stream_writer import StreamWriter

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.extension.exchange import OutputStream
    from servekit.extension.http import HttpResponse
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.transport import Connect
    from servekit.frontend.http1.transport import Http1

__all__ = ["Connection"]

SEND_LOOK_S = 0.25  #: how often a client that is slow to take its answer is looked at
FRESH_S = 0.5  #: how long a client that asked nothing yet is waited for while draining
LINGER_S = 2.0  #: how long a refused upload is read on, so that the client sees the refusal
NEVER = float("inf")


class Connection(BaseExchange):
    """Owns one accepted socket."""

    __slots__ = (
        "_accepted_at",
        "_heads",
        "_http1",
        "_is_head",
        "_keeps_alive",
        "_receiver",
        "_refusal",
        "_sender",
        "_socket",
        "_version",
        "expires",
        "host",
        "is_busy",
        "is_refused",
    )

    def __init__(self, sock: socket.socket | TlsSocket, peer: Any, http1: Http1) -> None:
        """Start reading *sock*, which is non-blocking and ours from now on."""
        super().__init__(peer)
        self._socket = sock
        self._http1 = http1
        self._heads = http1.heads
        self.host: Host = http1.host
        self._sender = Sender(sock, self.host, self._finish, self.close)
        self._refusal: ServekitError | None = None  #: to be said after the answers under way
        self._keeps_alive = True
        self.is_busy = False  #: a request is being answered
        self.is_refused = False  #: nothing that still comes is a request
        self._version = ""  #: of the last request
        self._is_head = False  #: of the request being answered
        self._accepted_at = monotonic()
        self.expires = self._accepted_at + self.host.settings.header_timeout
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
        if not self._version and self._has_agreed_on_another_protocol:  # RFC 7301 3.2
            self.is_refused, self._keeps_alive = True, False
            error = RequestError("ALPN agreed on another protocol, and this is HTTP/1.1")
            self.fail(error, self.host.request_ids.make())
            return
        self.is_busy = True
        self.expires = NEVER
        self._keeps_alive = request.keeps_alive and not self.host.connections.is_crowded
        self._version = request.version
        self._is_head = request.method == b"HEAD"
        self.host.handle(self, request)

    @property
    def _has_agreed_on_another_protocol(self) -> bool:
        return isinstance(self._socket, TlsSocket) and self._socket.protocol in self._http1.others

    def send_continue(self) -> None:
        """Tell the client that its body is awaited."""
        self._sender.send(CONTINUE)

    def answer_early(self, request: HttpRequest) -> None:
        """Have *request* answered without its body, and take no other."""
        self.is_refused, request.keeps_alive = True, False
        self.begin(request)

    def hand_over(self, preface: bytes, data: bytes) -> bool:
        """Leave the socket to the transport whose *preface* came first.

        :param data: what came after it.
        :return: ``False`` if no transport has this preface, or requests of HTTP/1.1 came before.
        """
        transport = self._http1.by_preface.get(preface)
        if transport is None or self._version or self._receiver.requests:
            return False
        if isinstance(self._socket, TlsSocket) and self._socket.protocol != transport.alpn:
            return False
        self.is_busy = True
        self._receiver.pause()
        transport.when_loaded(lambda connect: self._leave_to(connect, data))
        return True

    def _leave_to(self, connect: Connect, data: bytes) -> None:
        if self.is_closed:
            return
        self.is_closed = True  # for us: nothing is said, and the socket stays open
        self._receiver.close()
        self.host.connections.discard(self)
        successor = connect(self._socket, self.peer, self.host)
        self.host.connections.add(successor)
        successor.feed(data)

    def refuse(self, error: ServekitError) -> None:
        """Answer a request that we will not follow to its end, and take no other."""
        self.is_refused = True
        self._receiver.abandon()
        if self.is_busy or self._sender.rest or self._receiver.requests:
            self._refusal = error  # those before it come first
            self._receiver.pause()
        elif not self.is_closed:
            receiver = self._receiver
            refused = HttpRequest(
                receiver.method, receiver.target, receiver.headers, b"", False, "", error
            )
            self.expires = NEVER
            self._keeps_alive = False
            self._is_head = refused.method == b"HEAD"
            self.host.handle(self, refused)

    def on_end(self) -> None:
        """The client will send no more: its task is dropped unless a worker has it already.

        Who takes a stream and closes that side has gone.
        """
        is_queued = self.prediction is not None and not self.prediction.is_sent
        if is_queued or self.stream or not (self.is_busy or self._sender.rest):
            self.close()
        elif self.prediction is not None:
            self.prediction.cancel()  # the worker may stop early; what it answers is still written

    # ------------------------------------------------------------ response -> bytes

    def send(self, response: HttpResponse) -> None:
        """Write *response*."""
        head, body = self._heads.head(response), response.body
        if not self._keeps_alive or (self._is_draining and not self._receiver.requests):
            self._keeps_alive = False
            head += b"Connection: close\r\n"
        elif self._version == "1.0":
            head += b"Connection: keep-alive\r\n"
        if self._is_head:
            body = b""  # RFC 9110 9.3.2
        if self.observers is not None:
            self.observe_end(response.status, len(body))
        if response.release is None and len(body) < JOIN_BYTES:
            self._sender.send(b"%b\r\n%b" % (head, body))  # type: ignore[str-format]  # %b takes any buffer
        else:
            self._sender.send_with(head + b"\r\n", body, response.release)
        self._finish()

    def fail(self, error: ServekitError, request_id: str) -> None:
        """Respond with *error*, and close the connection where memory is short."""
        if self.host.pressure.is_full and self.stream is None:
            self._keeps_alive = False
        super().fail(error, request_id)

    @property
    def _is_draining(self) -> bool:
        return self.host.connections.is_draining

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> StreamWriter:
        """Write the head of *response*, and return what writes its body; then ``end_stream``."""
        self.stream = stream
        head = self._heads.head(self.filter_stream(response) if self.filters else response)
        is_chunked = self._version != "1.0"
        if is_chunked:
            head += b"Transfer-Encoding: chunked\r\n"
        if not (is_chunked and self._keeps_alive) or self._is_draining:
            self._keeps_alive = False
            head += b"Connection: close\r\n"
        self._sender.send(head + b"\r\n")
        return StreamWriter(self._sender, is_chunked=is_chunked)

    def end_stream(self, size: int, status: int = 200) -> None:
        """The body is out, or waits to be."""
        if self.observers is not None:
            self.observe_end(status, size)
        self.stream = None
        self._sender.on_flushed = self._finish
        self._finish()

    def _finish(self) -> None:
        """The answer is out, or waits to be: take the next request, or close."""
        self.is_busy = False
        self.prediction = self.filters = self.observers = self.protocol = None
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
            self.host.loop.run_callback(self.begin, receiver.requests.popleft())
        elif self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self.refuse(refusal)
        elif receiver.is_at_end:
            self.close()
        else:
            self.expires = monotonic() + self.host.settings.keep_alive
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
        settings, now = self.host.settings, monotonic()
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
        if self.prediction is not None:
            self.prediction.cancel()
            self.prediction = None
        if self.observers is not None:
            self.observe_end(None, 0)
        self._receiver.close()
        self._sender.close()
        self._socket.close()
        self.host.connections.discard(self)

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

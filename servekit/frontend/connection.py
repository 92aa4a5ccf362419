# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection: bytes in, requests out; answers in, bytes out.

Runs as callbacks of the event loop, never blocks. Requests are answered one at a time
and in order; a connection whose framing is in doubt is answered once more and closed.
"""

from __future__ import annotations

import re
import socket
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import httptools

from servekit.errors import (
    BodyTooLarge,
    ClientTooSlow,
    HeadersTooLarge,
    RequestError,
    ServekitError,
    TargetTooLong,
    UnknownMediaType,
)
from servekit.frontend.answer import CONTINUE, problem_answer

if TYPE_CHECKING:
    from servekit.frontend.server import FrontEnd
    from servekit.frontend.task import Task

__all__ = ["Connection", "HttpRequest"]

READ, WRITE = 1, 2
READ_BYTES = 65_536
MAX_HEADERS = 100
LINGER_S = 2.0  #: how long a refused upload is read on, so that the client sees the refusal
LINGER_BYTES = 65_536
NEVER = float("inf")
# RFC 9112 3.2 and RFC 3986 3.2.2: a name, an IPv4 or a bracketed IPv6 address, and a port
HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")


class HttpRequest(NamedTuple):
    """One request, received whole."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]  #: names in lower case
    body: bytes
    keeps_alive: bool
    version: str  #: ``1.1`` or ``1.0``


class Connection:
    """Owns one accepted socket."""

    __slots__ = (
        "_body",
        "_body_size",
        "_headers",
        "_in_body",
        "_is_closed",
        "_is_half_closed",
        "_is_reading",
        "_is_refused",
        "_keeps_alive",
        "_linger_bytes",
        "_parser",
        "_pipeline",
        "_reader",
        "_received",
        "_rest",
        "_send",
        "_socket",
        "_target",
        "_version",
        "_writer",
        "expires",
        "front_end",
        "is_busy",
        "peer",
        "task",
    )

    def __init__(self, sock: socket.socket, peer: Any, front_end: FrontEnd) -> None:
        """Start reading *sock*, which is non-blocking and ours from now on."""
        self._socket = sock
        self._send = sock.send
        self.front_end = front_end
        self.peer = peer
        self._reader = front_end.loop.io(sock.fileno(), READ)
        self._writer: Any = None
        self._rest = b""
        self._is_closed = self._is_half_closed = self._is_refused = False
        self._linger_bytes = 0
        self._keeps_alive = True
        self._pipeline: deque[HttpRequest] = deque()
        self.is_busy = False  #: a request is being answered
        self.task: Task | None = None  #: the prediction being answered
        self._parser = httptools.HttpRequestParser(self)
        self._reset()
        self._reader.start(self._on_readable)
        self._is_reading = True
        self.expires = monotonic() + front_end.settings.header_timeout

    # ------------------------------------------------------------ bytes -> request

    def _reset(self) -> None:
        """Be ready for the next request's first byte."""
        self._headers: dict[bytes, bytes] = {}
        self._received = 0
        self._target = b""
        self._body: list[bytes] = []
        self._body_size = 0
        self._in_body = False

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._on_end()
        elif self._is_refused:
            self._discard(len(data))
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._received += len(data)  # each whole request sets it back to zero
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, RequestError):
                self.front_end.log_exception("while parsing a request")
                self.close()
                return
            self._refuse(error.__context__)
        except httptools.HttpParserError as error:
            self._refuse(RequestError(f"not HTTP/1.1: {error}"))
        else:
            self._after_feed(len(data))

    def _after_feed(self, size: int) -> None:
        """Set the clock, and the limits that the parser does not know, for a request under way."""
        if self.is_busy:
            if self._pipeline:
                self._pause()
            return
        if not self._received or self._is_closed:
            return
        settings = self.front_end.settings
        if self._in_body:
            self.expires = monotonic() + settings.body_timeout
            return
        if self._received == size:
            self.expires = monotonic() + settings.header_timeout
        if self._received > settings.max_header + settings.max_target:
            self._refuse(HeadersTooLarge(f"header section: limit {settings.max_header} bytes"))

    def on_url(self, data: bytes) -> None:
        """Parser: a piece of the request target."""
        self._target += data
        limit = self.front_end.settings.max_target
        if len(self._target) > limit:
            raise TargetTooLong(f"request target: limit {limit} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser: one header field."""
        name = name.lower()
        headers = self._headers
        if name in headers:
            value = _joined(name, headers[name], value)
        elif len(headers) >= MAX_HEADERS:
            raise HeadersTooLarge(f"header fields: limit {MAX_HEADERS}")
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Parser: the header section is whole; what can be refused now is refused now."""
        headers = self._headers
        self._version = version = self._parser.get_http_version()
        host = headers.get(b"host")
        if version != "1.1" or host not in self.front_end.known_hosts:
            self._check_host(host, version)
        if b"transfer-encoding" in headers:
            _check_transfer_encoding(headers[b"transfer-encoding"], version)
        self._in_body = True
        if self._received > self.front_end.settings.max_header:
            self._check_header_size()
        length = headers.get(b"content-length")
        if length is not None and len(length) > 4:
            self._check_length(int(length))
        if b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
            self._write(CONTINUE)
        if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
            raise UnknownMediaType("Content-Encoding: only identity is taken")

    def _check_host(self, host: bytes | None, version: str) -> None:
        if version not in ("1.1", "1.0"):
            raise RequestError(f"HTTP/{version} is not spoken here")
        if host is None and version == "1.0":
            return
        if host is None or not HOST.fullmatch(host):
            raise RequestError("Host: missing or malformed")
        if version == "1.1":
            self.front_end.remember_host(host)

    def _check_header_size(self) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in self._headers.items())
        limit = self.front_end.settings.max_header
        if size > limit:
            raise HeadersTooLarge(f"header section: {size} bytes, limit {limit}")

    def _check_length(self, length: int) -> None:
        limit = self.front_end.settings.max_body
        if length > limit:
            raise BodyTooLarge(f"body: {length} bytes, limit {limit}")

    def on_body(self, data: bytes) -> None:
        """Parser: a piece of the body, chunked framing taken off."""
        self._body_size += len(data)
        limit = self.front_end.settings.max_body
        if self._body_size > limit:
            raise BodyTooLarge(f"body: limit {limit} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Parser: the request is whole."""
        parser, body = self._parser, self._body
        request = HttpRequest(
            parser.get_method(),
            self._target,
            self._headers,
            body[0] if len(body) == 1 else b"".join(body),
            parser.should_keep_alive(),
            self._version,
        )
        self._reset()
        if self.is_busy or self._is_closed:
            self._pipeline.append(request)
        else:
            self._begin(request)

    # ------------------------------------------------------------ request -> answer

    def _begin(self, request: HttpRequest) -> None:
        self.is_busy = True
        self.expires = NEVER
        self._keeps_alive = request.keeps_alive
        self._version = request.version
        self.front_end.route(self, request)

    def answer(self, head: bytes, body: bytes) -> None:
        """Write one answer: *head* is the status line and header lines, without the empty line."""
        if self._is_closed:
            return
        if not self._keeps_alive or self.front_end.is_draining:
            self._keeps_alive = False
            head += b"Connection: close\r\n"
        elif self._version == "1.0":
            head += b"Connection: keep-alive\r\n"
        self._write(b"%b\r\n%b" % (head, body))
        self._finish()

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Write the problem details of *error*."""
        if self._is_closed:
            return
        if self.front_end.is_draining:
            self._keeps_alive = False
        date = self.front_end.heads.date
        self._write(problem_answer(error, request_id, date, closes=not self._keeps_alive))
        self._finish()

    def _finish(self) -> None:
        """The answer is on its way: take the next request, or close."""
        self.is_busy = False
        self.task = None
        if self._is_closed or self._rest:
            return  # _on_writable comes back here
        if not self._keeps_alive or self._is_half_closed:
            self._end()
        elif self._pipeline:
            self.is_busy = True  # by way of the loop: a long pipeline must not recurse
            self.front_end.loop.run_callback(self._begin, self._pipeline.popleft())
        else:
            settings = self.front_end.settings
            wait_s = settings.header_timeout if self._received else settings.keep_alive
            self.expires = monotonic() + wait_s
            if not self._is_reading:
                self._resume()

    # ------------------------------------------------------------ answer -> bytes

    def _write(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
            return
        try:
            sent = self._send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(data):
            self._rest = data[sent:]
            self.expires = monotonic() + self.front_end.settings.send_timeout
            if self._writer is None:
                self._writer = self.front_end.loop.io(self._socket.fileno(), WRITE)
            self._writer.start(self._on_writable)
            self._pause()

    def _on_writable(self) -> None:
        try:
            sent = self._send(self._rest)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._rest = self._rest[sent:]
        if self._rest:
            self.expires = monotonic() + self.front_end.settings.send_timeout
            return
        self._writer.stop()
        if not self.is_busy:
            self._finish()

    # ------------------------------------------------------------ the connection's end

    def _refuse(self, error: RequestError) -> None:
        """Answer a request whose framing or size we will not follow, and read no further."""
        self._is_refused = True
        self._keeps_alive = False
        if self.is_busy or self._pipeline:
            self._pause()
            self._pipeline.clear()
            return  # the answer under way goes out first, then the connection closes
        self.answer_problem(error, self.front_end.next_request_id())

    def _end(self) -> None:
        """Close after our last answer; a client still sending gets the chance to read it."""
        if not self._is_refused or self._is_half_closed:
            self.close()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._linger_bytes = LINGER_BYTES
        self.expires = monotonic() + LINGER_S
        self._resume()

    def _discard(self, size: int) -> None:
        self._linger_bytes -= size
        if self._linger_bytes <= 0 and self.expires != NEVER:
            self.close()

    def _on_end(self) -> None:
        """The client will send no more: its task is dropped unless a worker has it already."""
        self._is_half_closed = True
        self._pause()
        if self.task is not None and not self.task.is_sent:
            self.close()
        elif self._received and not self._is_refused and not self.is_busy:
            self._refuse(RequestError("the request ended early"))
        elif not self.is_busy and not self._rest:
            self.close()

    def expire(self) -> None:
        """The client let a timeout pass."""
        if self._received and not self._is_refused and not self._rest:
            self._refuse(ClientTooSlow("the request did not arrive whole in time"))
        else:
            self.close()

    def close(self) -> None:
        """Close at once; nobody waits for the answer any more."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.task is not None:
            self.task.cancel()
            self.task = None
        for watcher in (self._reader, self._writer):
            if watcher is not None:
                watcher.stop()
                watcher.close()
        self._socket.close()
        self.front_end.connections.discard(self)

    def close_if_idle(self) -> None:
        """Close unless a request is under way; one that is will be the last."""
        if not self.is_busy and not self._rest and not self._received:
            self.close()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._reader.stop()

    def _resume(self) -> None:
        if not self._is_reading and not self._is_closed:
            self._is_reading = True
            self._reader.start(self._on_readable)


def _joined(name: bytes, first: bytes, second: bytes) -> bytes:
    """Return a repeated field as one list; fields that mean one thing only may not repeat."""
    if name == b"cookie":
        return first + b"; " + second
    if name in (b"host", b"content-type", b"transfer-encoding", b"content-length", b"expect"):
        raise RequestError(f"{name.decode()}: given twice")
    return first + b", " + second


def _check_transfer_encoding(value: bytes, version: str) -> None:
    """Take ``chunked`` and nothing else (RFC 9112 6.1)."""
    if version == "1.0":
        raise RequestError("Transfer-Encoding: not in HTTP/1.0")
    if value.lower() != b"chunked":
        raise UnknownMediaType("Transfer-Encoding: only chunked is taken")

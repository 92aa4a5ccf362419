# SPDX-License-Identifier: Apache-2.0
"""From bytes to requests: llhttp's callbacks, and the rules it leaves open. No socket, no clock."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

import httptools
from msgspec import Struct

from servekit.errors import (
    BodyTooLarge,
    HeadersTooLarge,
    MethodNotAllowed,
    RequestError,
    TargetTooLong,
    UnknownMediaType,
)

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.access import Guard
    from servekit.messages import Slab
    from servekit.settings import Settings

__all__ = ["HttpRequest", "RequestParser"]

MAX_HEADERS = 100
MAX_WISHES = 16  #: requests for another protocol that may come in one piece
READ_BYTES = 65_536  #: fed at most at once
FRAMING_PER_BYTE = 32  #: of a chunked body, even if every byte comes in a chunk of its own
MAX_KNOWN_HOSTS = 64
# RFC 9112 3.2 and RFC 3986 3.2.2: a name, an IPv4 or a bracketed IPv6 address, and a port
HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
#: fields that mean one thing only, so that a second one is not a longer list
SINGLE = frozenset(
    (b"host", b"content-type", b"transfer-encoding", b"content-length", b"expect", b"authorization")
)

#: ``Host`` values found well-formed; bounded, shared by all connections
_known_hosts: set[bytes] = set()


class HttpRequest(Struct):
    """One request, received whole."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]  #: names in lower case
    body: bytes | Slab
    keeps_alive: bool
    version: str  #: ``1.1`` or ``1.0``
    refusal: ServekitError | None = None  #: why it will not be answered otherwise


class RequestParser:
    """Collects the requests of one connection; refuses what breaks the framing or a limit."""

    __slots__ = (
        "_body",
        "_framing_limit",
        "_guard",
        "_llhttp",
        "_settings",
        "_target",
        "_version",
        "declared_bytes",
        "headers",
        "is_in_body",
        "received",
        "refusal",
        "requests",
        "wants_continue",
    )

    def __init__(self, settings: Settings, guard: Guard | None = None) -> None:
        """Take the limits of *settings*; *guard* judges each whole header section once."""
        self._settings = settings
        self._guard = guard
        self._framing_limit = settings.max_header + settings.max_target
        self.requests: deque[HttpRequest] = deque()  #: whole, in order; the caller takes them
        self._llhttp: Any = httptools.HttpRequestParser(self)
        self._reset()

    def _reset(self) -> None:
        """Be ready for the next request's first byte."""
        self.headers: dict[bytes, bytes] = {}  #: of the request under way, names in lower case
        self._target = b""
        self._body: bytes | bytearray = b""
        self.received = 0  #: bytes fed since the last whole request
        self.is_in_body = False  #: the header section is whole, the body is not
        self.declared_bytes = -1  #: ``Content-Length`` of that body
        self.wants_continue = False
        self.refusal: ServekitError | None = None  #: the guard's, of that request

    def feed(self, data: bytes) -> RequestError | None:
        """Parse *data*; return why nothing more of this connection can be read, if so."""
        self.received += len(data)
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._feed_again(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, RequestError):
                raise
            return error.__context__
        except httptools.HttpParserError as error:
            return RequestError(f"not HTTP/1.1: {error}")
        if self.received > self._framing_limit and self._framing_bytes() > self._framing_limit:
            return HeadersTooLarge(f"header section: limit {self._settings.max_header} bytes")
        return None

    def _feed_again(self, rest: bytes) -> RequestError | None:
        """Read the last request anew as if it had not asked for another protocol.

        llhttp leaves all that follows such a request, its body too, to that protocol. We do
        not take the offer (RFC 9110 7.8).
        """
        if len(self.requests) > MAX_WISHES:
            return RequestError("Upgrade: wished for too often")
        try:
            request = self.requests.pop()
            head = _without_upgrade(request)
        except RequestError as error:
            return error
        self._llhttp = httptools.HttpRequestParser(self)
        guard, self._guard = self._guard, lambda *_: request.refusal  # it has been judged
        failure = self.feed(head)
        self._guard = guard
        return failure or self.feed(rest)

    def _framing_bytes(self) -> int:
        """Count what came and is no body: header section, chunk sizes and extensions, trailers."""
        if not self.is_in_body:
            return self.received
        # the last piece may be all there is of a body, and small chunks are mostly framing
        return self.received - READ_BYTES - FRAMING_PER_BYTE * len(self._body)

    def take_head(self) -> tuple[HttpRequest, bytes | bytearray]:
        """Return the request whose body is under way and what came of it.

        The caller receives the rest of the declared bytes; we start anew after them.
        """
        begun, self._body = self._body, b""
        self.on_message_complete()
        request = self.requests.pop()
        self._llhttp = httptools.HttpRequestParser(self)
        return request, begun

    @property
    def method_and_target(self) -> tuple[bytes, bytes]:
        """Of the request whose body is under way."""
        return self._llhttp.get_method(), self._target

    def close(self) -> None:
        """Break the circles of parser and callbacks."""
        self._llhttp = self._guard = None

    # ------------------------------------------------------------ llhttp's callbacks

    def on_url(self, data: bytes) -> None:
        """Take a piece of the request target."""
        self._target = target = self._target + data if self._target else data
        if len(target) > self._settings.max_target:
            raise TargetTooLong(f"request target: limit {self._settings.max_target} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header field."""
        if self.is_in_body:
            return  # a trailer: nothing that comes after the body may change what it means
        name = name.lower()
        headers = self.headers
        if name in headers:
            value = _joined(name, headers[name], value)
        elif len(headers) >= MAX_HEADERS:
            raise HeadersTooLarge(f"header fields: limit {MAX_HEADERS}")
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Refuse now what can be refused before the body."""
        headers = self.headers
        self._version = version = self._llhttp.get_http_version()
        host = headers.get(b"host")
        if version != "1.1" or host not in _known_hosts:
            _check_host(host, version)
        if b"transfer-encoding" in headers:
            _check_transfer_encoding(headers[b"transfer-encoding"], version)
        if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
            raise UnknownMediaType("Content-Encoding: only identity is taken")
        if self.received > self._settings.max_header:
            self._check_header_size()
        length = headers.get(b"content-length")
        if length is not None:
            self.declared_bytes = int(length)
            self._check_body_size(self.declared_bytes)
        self.is_in_body = True
        if b"expect" in headers:
            self.wants_continue = headers[b"expect"].lower() == b"100-continue"
        if self._guard is not None:
            method = self._llhttp.get_method()
            self.refusal = self._guard(method, self._target, headers)
            if self.refusal is not None and method == b"HEAD":
                raise self.refusal  # and close: what answers a HEAD with a body must be the last

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body, chunked framing taken off."""
        if self.refusal is not None:
            return  # nobody will read it
        if not self._body:
            self._body = data
        elif type(self._body) is bytearray:
            self._body += data
        else:
            self._body = bytearray(self._body) + data
        if self.declared_bytes < 0:  # else it has been checked, and llhttp sees that it is kept
            self._check_body_size(len(self._body))

    def on_message_complete(self) -> None:
        """Keep the whole request."""
        llhttp, body = self._llhttp, self._body
        self.requests.append(
            HttpRequest(
                llhttp.get_method(),
                self._target,
                self.headers,
                body if type(body) is bytes else bytes(body),
                llhttp.should_keep_alive(),
                self._version,
                self.refusal,
            )
        )
        self._reset()

    def _check_header_size(self) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in self.headers.items())
        limit = self._settings.max_header
        if size > limit:
            raise HeadersTooLarge(f"header section: {size} bytes, limit {limit}")

    def _check_body_size(self, size: int) -> None:
        limit = self._settings.max_body
        if size > limit:
            raise BodyTooLarge(f"body: {size} bytes or more, limit {limit}")


def _without_upgrade(request: HttpRequest) -> bytes:
    """Return the head of *request* again, without the wish for another protocol.

    :raises MethodNotAllowed: it is a ``CONNECT``, which means nothing else.
    """
    if request.method == b"CONNECT":
        raise MethodNotAllowed("CONNECT: this is no proxy")
    headers = {name: value for name, value in request.headers.items() if name != b"upgrade"}
    options = [option.strip() for option in headers.pop(b"connection", b"").split(b",")]
    options = [option for option in options if option and option.lower() != b"upgrade"]
    if options:
        headers[b"connection"] = b", ".join(options)
    lines = [b"%b %b HTTP/%b" % (request.method, request.target, request.version.encode())]
    lines += [b"%b: %b" % field for field in headers.items()]
    return b"\r\n".join([*lines, b"", b""])


def _check_host(host: bytes | None, version: str) -> None:
    if version not in ("1.1", "1.0"):
        raise RequestError(f"HTTP/{version} is not spoken here")
    if host is None and version == "1.0":
        return
    if host is None or not HOST.fullmatch(host):
        raise RequestError("Host: missing or malformed")
    if len(_known_hosts) < MAX_KNOWN_HOSTS:
        _known_hosts.add(host)


def _joined(name: bytes, first: bytes, second: bytes) -> bytes:
    """Return a repeated field as one list; fields that mean one thing only may not repeat."""
    if name in SINGLE:
        raise RequestError(f"{name.decode()}: given twice")
    return first + (b"; " if name == b"cookie" else b", ") + second


def _check_transfer_encoding(value: bytes, version: str) -> None:
    """Take ``chunked`` and nothing else (RFC 9112 6.1)."""
    if version == "1.0":
        raise RequestError("Transfer-Encoding: not in HTTP/1.0")
    if value.lower() != b"chunked":
        raise UnknownMediaType("Transfer-Encoding: only chunked is taken")

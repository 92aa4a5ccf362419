# SPDX-License-Identifier: Apache-2.0
"""Feeds llhttp, and says why nothing more can be read when that is so. No socket, no clock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httptools

from servekit.errors import (
    HeadersTooLarge,
    MethodNotAllowed,
    NotSupported,
    RequestError,
    ServekitError,
    VersionNotSupported,
)
from servekit.frontend.http.fields import without_upgrade
from servekit.frontend.http.request_builder import ChunkedBody, Collector
from servekit.frontend.http1.chunked import Chunks
from servekit.frontend.http1.request_line import (
    HEAD_BEGUN,
    LINE,
    check_line,
    end_of_head,
    known_lines,
    starts_of,
)

if TYPE_CHECKING:
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import Guard
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["HTTP2_PREFACE", "READ_BYTES", "RequestParser"]

MAX_WISHES = 16  #: requests for another protocol that may come in one piece
READ_BYTES = 65_536  #: fed at most at once
FRAMING_PER_BYTE = 32  #: of a chunked body, even if every byte comes in a chunk of its own
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  #: RFC 9113 3.4
PREFACE_SEEN = "PRI/Upgrade"  #: says llhttp
CR = b"\r"
TAIL_BYTES = 3  #: of what ends a header section, in the piece before
METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?: |$)")


class RequestParser(Collector):
    """Turns the bytes of one connection into ``requests``."""

    __slots__ = (
        "_chunks",
        "_framing_limit",
        "_is_parting",
        "_line",
        "_rest",
        "_tail",
        "behind_preface",
    )

    def __init__(
        self, settings: Settings, guard: Guard | None = None, pressure: Pressure | None = None
    ) -> None:
        """Take the limits of *settings*; *guard* judges each whole header section once."""
        super().__init__(settings, guard, pressure)
        self._framing_limit = settings.max_header + settings.max_target
        self.behind_preface: bytes | None = None  #: what came after that of HTTP/2
        self._line = b""  #: a request line that is not whole
        self._tail = b""  #: the last bytes of a header section that is not whole
        self._chunks: Chunks | None = None  #: of the body under way
        self._rest = b""  #: what llhttp must not see, or not yet
        self._is_parting = False  #: somebody sees to the rest
        self._start_anew()

    def feed(self, data: bytes) -> ServekitError | None:
        """Parse *data*; return why nothing more of this connection can be read, if so."""
        left = 0  #: bytes of a body under way
        if not self.stage:
            if self._line or data[: data.find(b"\n") + 1] not in known_lines:
                failure = self._take_line(data)
                if failure is not None:
                    return failure
        elif self._chunks is not None:
            self.received += len(data)
            return self._part(data)
        elif self.is_in_body:
            came = self.body_bytes if self.refusal is None else self.skipped
            left = self.declared_bytes - came
        else:
            left = HEAD_BEGUN
            if self._line and (failure := self._take_line(data)):
                return failure
        return self._feed(data, left)

    def _feed(self, data: bytes, left: int) -> ServekitError | None:
        self.received += len(data)
        before, rest, is_chunked = len(self.requests), None, False
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            is_chunked = isinstance(error.__context__, ChunkedBody)
            if not is_chunked:
                if not isinstance(error.__context__, ServekitError):
                    raise
                return error.__context__
        except httptools.HttpParserError as error:
            return self._not_http(error, data)
        if rest is not None:  # not above: a callback's error would then seem to come of this one
            return self._feed_again(rest)
        if is_chunked:
            return self._take_chunks(data, left, before)
        if (self.stage or len(self.requests) > before + 1 or data[-1:] == CR) and (
            failure := self._look_behind(data, left, before)
        ):
            return failure
        if self.received > self._framing_limit and self._framing_bytes() > self._framing_limit:
            return HeadersTooLarge(f"header section: limit {self._settings.max_header} bytes")
        return None

    # ------------------------------------------------------------ what llhttp does not look at

    def _take_line(self, data: bytes) -> RequestError | None:
        """Return what is wrong with the request line that *data* begins, or goes on with."""
        line = self._line + data
        while line[:2] == b"\r\n":  # empty lines before it (RFC 9112 2.2)
            line = line[2:]
        end = line.find(b"\n") + 1
        self._line = b"" if end else line
        return check_line(line[:end]) if end else None

    def _look_behind(self, data: bytes, left: int, before: int) -> ServekitError | None:
        """Look at the request lines in *data* behind the first, which have been read too.

        :param left: bytes that *data* began with of a body that was under way.
        :param before: requests that were whole before.
        """
        text, done = self._text(data, left), list(self.requests)[before:]
        for number, place in enumerate(starts_of(text, left, done), 1):
            if not LINE.match(text, place):
                failure = self._take_line(text[place:])
                if failure is not None:
                    while len(self.requests) > before + number:
                        self.requests.pop()
                    return failure
        is_in_head = self.stage and not self.is_in_body
        self._tail = text[-TAIL_BYTES:] if is_in_head else b""
        return None

    def _text(self, data: bytes, left: int) -> bytes:
        """Return *data*, behind the last bytes before it if its first header section had begun."""
        return self._tail + data if left == HEAD_BEGUN else data

    def _take_chunks(self, data: bytes, left: int, before: int) -> ServekitError | None:
        """Leave what is behind the header section that ends in *data* to ``Chunks``."""
        if self._llhttp.get_method() == b"CONNECT":
            return MethodNotAllowed("CONNECT: this is no proxy")
        text, done = self._text(data, left), list(self.requests)[before:]
        failure = self._look_behind(data, left, before)
        if failure is not None:
            return failure
        start = [0, *starts_of(text, left, done)][-1]
        end = end_of_head(text, start, is_begun=left == HEAD_BEGUN and not done)
        self._chunks = Chunks(self.on_body)
        return self._part(text[end:])

    def _part(self, data: bytes) -> ServekitError | None:
        """Feed *data*: a chunked body, and what follows it."""
        self._rest = data
        if self._is_parting:
            return None
        self._is_parting, failure = True, None
        while failure is None and self._rest:
            data, self._rest = self._rest, b""
            failure = self.feed(data) if self._chunks is None else self._feed_chunks(data)
        self._is_parting = False
        return failure

    def _feed_chunks(self, data: bytes) -> ServekitError | None:
        assert self._chunks is not None
        try:
            rest = self._chunks.feed(data)
        except ServekitError as error:
            return error
        if rest is None:
            is_long = self._framing_bytes() > self._framing_limit
            return HeadersTooLarge("chunks: too much besides the body") if is_long else None
        self._chunks, self._rest = None, rest
        self.on_message_complete()
        self._start_anew()
        return None

    def take_head(self) -> tuple[HttpRequest, bytes | bytearray]:
        """Return the request whose body is under way and what came of it.

        The caller receives the rest of the declared bytes; we start anew after them.
        """
        begun, self._body = self._body, b""
        self.on_message_complete()
        self._start_anew()
        return self.requests.pop(), begun

    @property
    def method_and_target(self) -> tuple[bytes, bytes]:
        """Of the request that is under way."""
        return self._llhttp.get_method(), self._target

    def close(self) -> None:
        """Break the circles of parser and callbacks; requests that nobody took are gone."""
        self._llhttp = self._guard = self._chunks = None
        for request in self.requests:
            if not isinstance(request.body, bytes):
                request.route.bodies.free(request.body)
        self.requests.clear()

    def _start_anew(self) -> None:
        self._llhttp = httptools.HttpRequestParser(self)
        self._llhttp.set_dangerous_leniencies(lenient_version=True)  # the collector looks at it

    def _not_http(self, error: httptools.HttpParserError, data: bytes) -> RequestError:
        """Tell a request line that we do not serve from one that is none."""
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            line = data.lstrip(b"\r\n") if self.received == len(data) else b""
            if METHOD.match(line):
                return NotSupported("method: not known here")
        elif PREFACE_SEEN in str(error):
            self.behind_preface = data[len(HTTP2_PREFACE) - (self.received - len(data)) :]
            return VersionNotSupported("HTTP/2 is not spoken here, or not after HTTP/1.1")
        return RequestError(f"not HTTP/1.1: {error}")

    def _feed_again(self, rest: bytes) -> ServekitError | None:
        """Read the last request anew as if it had not asked for another protocol.

        llhttp leaves all that follows such a request, its body too, to that protocol. We do
        not take the offer (RFC 9110 7.8).
        """
        if len(self.requests) > MAX_WISHES:
            return RequestError("Upgrade: wished for too often")
        request = self.requests.pop()
        if request.method == b"CONNECT":
            return MethodNotAllowed("CONNECT: this is no proxy")
        line = b"%b %b HTTP/%b" % (request.method, request.target, request.version.encode())
        self._start_anew()
        guard, self._guard = self._guard, lambda *_: request.refusal  # it has been judged
        failure = self.feed(b"\r\n".join([line, *without_upgrade(request.headers), b"", b""]))
        self._guard = guard
        return failure or self.feed(rest)

    def _framing_bytes(self) -> int:
        """Count what came and is no body: header section, chunk sizes and extensions, trailers."""
        if not self.is_in_body:
            return self.received
        # the last piece may be all there is of a body, and small chunks are mostly framing
        return self.received - READ_BYTES - FRAMING_PER_BYTE * self.body_bytes

# SPDX-License-Identifier: Apache-2.0
"""The bytes of an HTTP/1.1 connection as requests: drives llhttp. No socket, no clock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httptools

from servekit.errors import (
    HeadersTooLarge,
    MethodNotAllowed,
    NotSupported,
    RequestError,
    ServekitError,
)
from servekit.frontend.http.closed import do_nothing
from servekit.frontend.http.fields import without_upgrade
from servekit.frontend.http.request_builder import BODY, HEAD, IDLE
from servekit.frontend.http1.chunked import ChunkDecoder
from servekit.frontend.http1.llhttp_builder import ChunkedBody, LlhttpBuilder
from servekit.frontend.http1.request_line import (
    HEAD_BEGUN,
    LineChecker,
    end_of_head,
    known_lines,
    starts_of,
)

if TYPE_CHECKING:
    from servekit.frontend.exchange.protocols import Guard
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["HTTP2_PREFACE", "READ_BYTES", "RequestParser"]

MAX_UPGRADES = 16  #: requests for another protocol that may come in one piece
READ_BYTES = 65_536  #: fed at most at once
FRAMING_PER_BYTE = 32  #: of a chunked body, even if every byte comes in a separate chunk
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  #: RFC 9113 3.4
PREFACE_SEEN = "PRI/Upgrade"  #: in llhttp's message
CR = b"\r"
METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?: |$)")


class RequestParser:
    """Turns the bytes of one connection into ``requests``."""

    __slots__ = (
        *("_chunks", "_framing_limit", "_is_parsing_rest", "_llhttp", "_max_header", "_rest"),
        *("after_preface", "builder", "lines", "requests"),
    )

    def __init__(self, settings: Settings, guard: Guard | None, pressure: Pressure) -> None:
        """Apply the limits of *settings*.

        :param guard: judges each header section when it is whole.
        :param pressure: counts large bodies that are not in shared memory.
        """
        self.builder = LlhttpBuilder(settings, guard, pressure)
        self.requests = self.builder.requests
        self.after_preface: bytes | None = None  #: the bytes after the preface of HTTP/2
        self._max_header = settings.max_header
        self._framing_limit = settings.max_header + settings.max_target
        self.lines = LineChecker()
        self._chunks: ChunkDecoder | None = None  #: decodes a chunked body
        self._rest = b""  #: bytes that llhttp must not see, or not yet
        self._is_parsing_rest = False
        self._start_llhttp()

    def _start_llhttp(self) -> None:
        llhttp: Any = httptools.HttpRequestParser(self.builder)
        llhttp.set_dangerous_leniencies(lenient_version=True)  # the builder checks it
        self._llhttp = self.builder.line = llhttp

    def end_body(self) -> None:
        """End a body whose rest was read elsewhere."""
        self.builder.on_message_complete()
        self._start_llhttp()

    def close(self) -> None:
        """Break the circle of llhttp and its callbacks, and free the memory of bodies."""
        self.builder.abandon()
        self.builder.line = self._llhttp = self._chunks = None
        self.builder.shed = do_nothing
        for request in self.requests:
            if not isinstance(request.body, bytes):
                request.route.bodies.free(request.body)
        self.requests.clear()

    # ------------------------------------------------------------ bytes -> llhttp

    def feed(self, data: bytes) -> ServekitError | None:
        """Parse *data*; return the error after which nothing more can be read."""
        builder, lines, left = self.builder, self.lines, 0
        if builder.stage == IDLE:
            if (lines.partial or data[: data.find(b"\n") + 1] not in known_lines) and (
                error := lines.check(data)
            ):
                return error
        elif self._chunks is not None:
            builder.received += len(data)
            return self._parse_rest(data)
        elif builder.stage == BODY:
            left = builder.declared_bytes - builder.body_bytes
        else:
            left = HEAD_BEGUN
            if lines.partial and (error := lines.check(data)):
                return error
        return self._feed_llhttp(data, left)

    def _feed_llhttp(self, data: bytes, left: int) -> ServekitError | None:
        """Let llhttp parse *data*.

        :param left: bytes of a body that it begins with, or ``HEAD_BEGUN``.
        """
        builder, requests = self.builder, self.requests
        builder.received += len(data)
        before, rest, is_chunked = len(requests), None, False
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
            return self._error_of(error, data, left, before)
        if rest is not None:  # not above: a callback's error would seem to be caused by this one
            return self._parse_without_upgrade(rest)
        if is_chunked:
            return self._begin_chunks(data, left, before)
        failure: ServekitError | None = None
        if builder.stage or len(requests) > before + 1 or data[-1:] == CR:
            failure = self._check_later_lines(data, left, before)
        if builder.received > self._framing_limit and failure is None:
            failure = self._check_framing()
        return failure

    def _check_later_lines(self, data: bytes, left: int, before: int) -> ServekitError | None:
        """Check the request lines in *data* after the first, which llhttp has read too."""
        text = self.lines.text(data, left)
        bad = self.lines.check_later(text, left, list(self.requests)[before:])
        if bad is not None:
            while len(self.requests) > before + bad[0]:
                self.requests.pop()
            return bad[1]
        self.lines.keep_tail(text if self.builder.stage == HEAD else b"")
        return None

    def _error_of(
        self, error: httptools.HttpParserError, data: bytes, left: int, before: int
    ) -> ServekitError | None:
        """Tell a request line that is not supported from one that is malformed."""
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            if (found := self._check_later_lines(data, left, before)) is not None:
                return found
            if METHOD.match(self.lines.partial):  # a whole line has been checked
                return NotSupported("method: not known here")
        elif PREFACE_SEEN in str(error):
            self.after_preface = data[len(HTTP2_PREFACE) - (self.builder.received - len(data)) :]
            return None
        return RequestError(f"not HTTP/1.1: {error}")

    def _parse_without_upgrade(self, rest: bytes) -> ServekitError | None:
        """Parse the last request again as if it had not asked for another protocol.

        llhttp leaves everything after such a request, its body too, to that protocol. The offer
        is not accepted (RFC 9110 7.8).
        """
        if len(self.requests) > MAX_UPGRADES:
            return RequestError("Upgrade: too many requests for another protocol")
        request = self.requests.pop()
        if request.method == b"CONNECT":
            return MethodNotAllowed("CONNECT: this is not a proxy")
        line = b"%b %b HTTP/%b" % (request.method, request.target, request.version.encode())
        self._start_llhttp()
        builder = self.builder
        guard, verdict = builder.guard, request.refusal or request.identity
        builder.guard = lambda *_: verdict  # it has judged already
        error = self.feed(b"\r\n".join([line, *without_upgrade(request.headers), b"", b""]))
        builder.guard = guard
        return error or self.feed(rest)

    # ------------------------------------------------------------ chunked bodies

    def _begin_chunks(self, data: bytes, left: int, before: int) -> ServekitError | None:
        """Decode the chunks after the header section that ends in *data*."""
        if self.builder.method == b"CONNECT":
            return MethodNotAllowed("CONNECT: this is not a proxy")
        text, requests = self.lines.text(data, left), list(self.requests)[before:]
        error = self._check_later_lines(data, left, before)
        if error is not None:
            return error
        start = [0, *starts_of(text, left, requests)][-1]
        end = end_of_head(text, start, is_begun=left == HEAD_BEGUN and not requests)
        self._chunks = ChunkDecoder(self.builder.add_body)
        return self._parse_rest(text[end:])

    def _parse_rest(self, data: bytes) -> ServekitError | None:
        """Parse *data*: a chunked body, and the requests after it."""
        self._rest = data
        if self._is_parsing_rest:
            return None
        self._is_parsing_rest, error = True, None
        while error is None and self._rest:
            data, self._rest = self._rest, b""
            error = self.feed(data) if self._chunks is None else self._decode_chunks(data)
        self._is_parsing_rest = False
        return error

    def _decode_chunks(self, data: bytes) -> ServekitError | None:
        assert self._chunks is not None
        try:
            rest = self._chunks.feed(data)
        except ServekitError as error:
            return error
        if rest is None:
            return self._check_framing()
        self._chunks, self._rest = None, rest
        self.end_body()
        return None

    def _check_framing(self) -> ServekitError | None:
        """Limit the bytes besides bodies: header sections, chunk sizes, extensions, trailers."""
        builder = self.builder
        framing = builder.received
        if builder.stage == BODY:
            # the last piece may be all there is of a body, and small chunks are mostly framing
            framing -= READ_BYTES + FRAMING_PER_BYTE * builder.body_bytes
        if framing <= self._framing_limit:
            return None
        if self._chunks is not None:
            return HeadersTooLarge("chunks: too much besides the body")
        return HeadersTooLarge(f"header section: limit {self._max_header} bytes")

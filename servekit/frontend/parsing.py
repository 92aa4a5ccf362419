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
from servekit.frontend.collecting import Collector
from servekit.frontend.fields import without_upgrade

if TYPE_CHECKING:
    from servekit.frontend.access import Guard
    from servekit.frontend.collecting import HttpRequest
    from servekit.frontend.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["READ_BYTES", "RequestParser"]

MAX_WISHES = 16  #: requests for another protocol that may come in one piece
READ_BYTES = 65_536  #: fed at most at once
FRAMING_PER_BYTE = 32  #: of a chunked body, even if every byte comes in a chunk of its own
PREFACE_BYTES = 24  #: of HTTP/2 (RFC 9113 3.4)
PREFACE_SEEN = "PRI/Upgrade"  #: says llhttp
MAX_KNOWN_LINES = 256
MAX_KNOWN_BYTES = 256
#: RFC 9112 3: one space each, and the line's end; llhttp takes several
LINE = re.compile(rb"[^\x00-\x20]+ [^\x00-\x20]+ [^\x00-\x20]+\r\n")
METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?: |$)")


#: first lines found well-formed; bounded, shared by all connections
known_lines = {b"", b"\r\n"}


class RequestParser(Collector):
    """Turns the bytes of one connection into ``requests``."""

    __slots__ = ("_framing_limit", "behind_preface")

    def __init__(
        self, settings: Settings, guard: Guard | None = None, pressure: Pressure | None = None
    ) -> None:
        """Take the limits of *settings*; *guard* judges each whole header section once."""
        super().__init__(settings, guard, pressure)
        self._framing_limit = settings.max_header + settings.max_target
        self.behind_preface: bytes | None = None  #: what came after that of HTTP/2
        self._start_anew()

    def feed(self, data: bytes) -> ServekitError | None:
        """Parse *data*; return why nothing more of this connection can be read, if so."""
        if not (self.stage or self.received) and data[: data.find(b"\n") + 1] not in known_lines:
            failure = check_line(data)
            if failure is not None:
                return failure
        self.received += len(data)
        rest = None
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, ServekitError):
                raise
            return error.__context__
        except httptools.HttpParserError as error:
            return self._not_http(error, data)
        if rest is not None:  # not above: a callback's error would then seem to come of this one
            return self._feed_again(rest)
        if self.received > self._framing_limit and self._framing_bytes() > self._framing_limit:
            return HeadersTooLarge(f"header section: limit {self._settings.max_header} bytes")
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
        self._llhttp = self._guard = None
        for request in self.requests:
            if not isinstance(request.body, bytes):
                request.batcher.bodies.free(request.body)
        self.requests.clear()

    def _start_anew(self) -> None:
        self._llhttp = httptools.HttpRequestParser(self)

    def _not_http(self, error: httptools.HttpParserError, data: bytes) -> RequestError:
        """Tell a request line that we do not serve from one that is none."""
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            line = data.lstrip(b"\r\n") if self.received == len(data) else b""
            if METHOD.match(line):
                return NotSupported("method: not known here")
        elif "Invalid HTTP version" in str(error):
            return VersionNotSupported("HTTP/1.1 and HTTP/1.0 are spoken here")
        elif PREFACE_SEEN in str(error):
            self.behind_preface = data[PREFACE_BYTES - (self.received - len(data)) :]
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


def check_line(data: bytes) -> RequestError | None:
    """Return what is wrong with the request line that *data* begins with, if llhttp would take it.

    It sees to all else, and to lines that come in pieces or behind another request: what it
    takes too much is whitespace, which changes the meaning of none (RFC 9112 3).
    """
    line = data[: data.find(b"\n") + 1]
    if not LINE.fullmatch(line):
        is_spaced = b"  " in line or line[:1] in (b"\r", b"\n")
        return RequestError("request line: not separated by single spaces") if is_spaced else None
    if len(known_lines) < MAX_KNOWN_LINES and len(line) <= MAX_KNOWN_BYTES:
        known_lines.add(line)
    return None

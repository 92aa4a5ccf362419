# SPDX-License-Identifier: Apache-2.0
"""The fields of a HEADERS frame to a request, by the rules and limits of HTTP/1.1's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from servekit.errors import MethodNotAllowed, NotSupported, RequestError
from servekit.frontend.http.fields import (
    METHODS,
    NOT_IN_TRAILERS,
    OF_A_CONNECTION,
    check_host,
    known_hosts,
)
from servekit.frontend.http.request_builder import Collector
from servekit.frontend.http2.protocol import MalformedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import Guard
    from servekit.frontend.memory.pressure import Pressure
    from servekit.settings import Settings

__all__ = ["StreamCollector", "check_trailers"]

NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]|\A[ \t]|[ \t]\Z")
LENGTH = re.compile(rb"[0-9]{1,18}")
PSEUDO = (b":method", b":scheme", b":authority", b":path")
SCHEMES = (b"http", b"https")


class Line:
    """Stands where llhttp stands for the collector: what a request line says."""

    __slots__ = ("_method",)

    def __init__(self, method: bytes) -> None:
        self._method = method

    def get_method(self) -> bytes:
        """Return it as it came."""
        return self._method

    def get_http_version(self) -> str:
        """Return the one there is."""
        return "2"

    def should_keep_alive(self) -> bool:
        """No request ends a connection."""
        return True


class StreamCollector(Collector):
    """The request of one stream."""

    __slots__ = ("_is_end",)

    def __init__(self, settings: Settings, guard: Guard | None, pressure: Pressure) -> None:
        """Take the limits of *settings*; *guard* judges the header section."""
        super().__init__(settings, guard, pressure)
        self._llhttp = Line(b"")
        self._is_end = False

    @property
    def method(self) -> bytes:
        """Of the request; "" until its fields have been looked at."""
        method: bytes = self._llhttp.get_method()
        return method

    def take_fields(self, fields: Iterable[tuple[bytes, bytes]], *, is_end: bool) -> None:
        """Take the header section; unless it *is_end*, a body follows, whatever the fields say.

        :raises MalformedRequest: RFC 9113 says that this is none.
        :raises RequestError: it is one that we refuse.
        """
        self._is_end = is_end
        pseudo: dict[bytes, bytes] = {}
        regular: list[tuple[bytes, bytes]] = []
        for name, value in fields:
            check_value(name, value)
            if not name.startswith(b":"):
                check_name(name, value)
                regular.append((name, value))
            elif name not in PSEUDO or name in pseudo or regular:
                raise MalformedRequest("a pseudo-header is unknown, given twice or out of place")
            else:
                pseudo[name] = value
        self._take_pseudo(pseudo, dict(regular).get(b"host"))
        self.received = self._settings.max_header + 1  # have its size counted
        for name, value in regular:
            self.on_header(name, value)
        if b":authority" in pseudo:
            self.headers[b"host"] = pseudo[b":authority"]
        self.on_headers_complete()

    def _take_pseudo(self, pseudo: dict[bytes, bytes], host: bytes | None) -> None:
        self._llhttp = Line(pseudo.get(b":method", b""))
        if self.method == b"CONNECT":
            raise MethodNotAllowed("CONNECT: this is no proxy")
        if not all(pseudo.get(name) for name in (b":method", b":scheme", b":path")):
            raise MalformedRequest(":method, :scheme or :path is missing")
        if host is not None and pseudo.get(b":authority", host) != host:
            raise MalformedRequest(":authority and Host differ")
        if not NAME.fullmatch(self.method.lower()):
            raise MalformedRequest(":method is not a token")
        if self.method not in METHODS:
            raise NotSupported("method: not known here")
        if pseudo[b":scheme"].lower() not in SCHEMES:
            raise RequestError("request target: neither http nor https")
        if pseudo[b":path"][:1] not in (b"/", b"*"):
            raise RequestError("request target: :path begins with a slash")
        self.on_url(pseudo[b":path"])

    def _has_body(self) -> bool:
        return not self._is_end

    def end(self) -> HttpRequest:
        """Return the whole request.

        :raises MalformedRequest: its body is not as long as was said.
        """
        if self.declared_bytes not in (-1, len(self._body)):
            raise MalformedRequest("the body is not as long as Content-Length says")
        self.on_message_complete()
        return self.requests.popleft()

    def take_head(self) -> tuple[HttpRequest, bytes | bytearray]:
        """Return the request whose body is under way and what came of it."""
        begun, self._body = self._body, b""
        self.on_message_complete()
        return self.requests.popleft(), begun

    def _check_version_and_host(self, _version: str, host: bytes | None) -> None:
        if host not in known_hosts:
            check_host(host)


def check_value(name: bytes, value: bytes) -> None:
    """Refuse what HTTP/1.1 could not say (RFC 9113 8.2.1)."""
    if BAD_VALUE.search(value):
        raise MalformedRequest(f"{name.decode('latin-1')}: a character that no value has")


def check_name(name: bytes, value: bytes) -> None:
    """Refuse what is no field of a request in HTTP/2."""
    if not NAME.fullmatch(name):
        raise MalformedRequest("the name of a field is none, or not in lower case")
    if name in OF_A_CONNECTION or (name == b"te" and value != b"trailers"):
        raise MalformedRequest(f"{name.decode()}: speaks of a connection")
    if name == b"content-length" and not LENGTH.fullmatch(value):
        raise MalformedRequest("Content-Length: not a number")


def check_trailers(fields: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse what may not come behind a body (RFC 9113 8.1); all else changes nothing.

    :raises MalformedRequest: one of *fields* may not.
    """
    for name, value in fields:
        check_value(name, value)
        if not NAME.fullmatch(name) or name in NOT_IN_TRAILERS:
            raise MalformedRequest("a trailer field is malformed or not allowed")

# SPDX-License-Identifier: Apache-2.0
"""Builds requests of the fields of HEADERS frames, by the rules of RFC 9113."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from servekit.errors import MethodNotAllowed, NotSupported, RequestError
from servekit.frontend.transport import (
    CONNECTION_FIELDS,
    METHODS,
    NOT_IN_TRAILERS,
    RequestBuilder,
    check_size,
)
from servekit_http2.protocol import MalformedRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension import HttpRequest

__all__ = ["StreamRequestBuilder", "check_trailers"]

NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]|\A[ \t]|[ \t]\Z")
LENGTH = re.compile(rb"[0-9]{1,18}")
PSEUDO = (b":method", b":scheme", b":authority", b":path")
PORTS = {b"http": b":80", b"https": b":443"}  #: by scheme: those of authorities that name none


class PseudoLine:
    """The start line of a request, from its pseudo-headers."""

    __slots__ = ("_method",)

    def __init__(self, method: bytes) -> None:
        self._method = method

    def get_method(self) -> bytes:
        """Return the method as it came."""
        return self._method

    def get_http_version(self) -> str:
        """Return ``2``."""
        return "2"

    def should_keep_alive(self) -> bool:
        """Return that a request never ends a connection."""
        return True


class StreamRequestBuilder(RequestBuilder):
    """Builds the request of one stream."""

    __slots__ = ()

    def take_fields(self, fields: Iterable[tuple[bytes, bytes]], *, is_end: bool) -> None:
        """Take the header section; a body follows unless it *is_end*, whatever the fields say.

        :raises MalformedRequest: it is not a valid request (RFC 9113 8.1.1).
        :raises RequestError: a limit or a rule of HTTP refuses it.
        """
        pseudo: dict[bytes, bytes] = {}
        regular: list[tuple[bytes, bytes]] = []
        for name, value in fields:
            check_value(name, value)
            if not name.startswith(b":"):
                check_name(name, value)
                regular.append((name, value))
            elif name not in PSEUDO or name in pseudo or regular:
                raise MalformedRequest("a pseudo-header is unknown, duplicate or out of place")
            else:
                pseudo[name] = value
        self._take_pseudo(pseudo, dict(regular).get(b"host"))
        for name, value in regular:
            self.add_field(name, value)
        if b":authority" in pseudo:
            self.headers[b"host"] = pseudo[b":authority"]
        check_size(self.headers, self.settings.max_header)
        self.end_head(has_body=not is_end)

    def _take_pseudo(self, pseudo: dict[bytes, bytes], host: bytes | None) -> None:
        method = pseudo.get(b":method", b"")
        self.line = PseudoLine(method)
        if method == b"CONNECT":
            raise MethodNotAllowed("CONNECT: this is not a proxy")
        if not all(pseudo.get(name) for name in (b":method", b":scheme", b":path")):
            raise MalformedRequest(":method, :scheme or :path is missing")
        scheme = pseudo[b":scheme"].lower()
        if host is not None and differ(pseudo.get(b":authority", host), host, scheme):
            raise MalformedRequest(":authority and Host differ")
        if not NAME.fullmatch(method.lower()):
            raise MalformedRequest(":method is not a token")
        if method not in METHODS:
            raise NotSupported("method: not known here")
        if scheme not in PORTS:
            raise RequestError("request target: neither http nor https")
        if pseudo[b":path"][:1] not in (b"/", b"*"):
            raise RequestError("request target: :path must begin with a slash")
        self.add_target(pseudo[b":path"])

    def end(self) -> HttpRequest:
        """Return the whole request.

        :raises MalformedRequest: its body is not as long as ``Content-Length`` says.
        """
        if self.declared_bytes not in (-1, self.body_bytes):
            raise MalformedRequest("the body is not as long as Content-Length says")
        return self.finish()


def differ(authority: bytes, host: bytes, scheme: bytes) -> bool:
    """Whether two authorities differ (RFC 3986 6.2): in more than case and the usual port."""
    if authority == host:
        return False
    port = PORTS.get(scheme, b":")
    one, other = (each.lower().removesuffix(port).rstrip(b":") for each in (authority, host))
    return one != other


def check_value(name: bytes, value: bytes) -> None:
    """Refuse a value that HTTP/1.1 could not carry (RFC 9113 8.2.1)."""
    if BAD_VALUE.search(value):
        raise MalformedRequest(f"{name.decode('latin-1')}: contains a forbidden character")


def check_name(name: bytes, value: bytes) -> None:
    """Refuse a field that a request of HTTP/2 must not have."""
    if not NAME.fullmatch(name):
        raise MalformedRequest("a field name is malformed, or not in lower case")
    if name in CONNECTION_FIELDS or (name == b"te" and value != b"trailers"):
        raise MalformedRequest(f"{name.decode()}: connection-specific field, not allowed in HTTP/2")
    if name == b"content-length" and not LENGTH.fullmatch(value):
        raise MalformedRequest("Content-Length: not a number")


def check_trailers(fields: Iterable[tuple[bytes, bytes]]) -> None:
    """Check *fields*, which are ignored: the body has been interpreted without them.

    :raises MalformedRequest: one of them is not allowed after a body (RFC 9113 8.1).
    """
    for name, value in fields:
        check_value(name, value)
        if not NAME.fullmatch(name) or name in NOT_IN_TRAILERS:
            raise MalformedRequest("a trailer field is malformed or not allowed")

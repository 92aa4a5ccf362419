# SPDX-License-Identifier: Apache-2.0
"""Header fields that decide about framing and routing: what is taken, what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from servekit.errors import ExpectationFailed, NotSupported, RequestError, UnknownCoding
from servekit.ipc.batches import QUERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "METHODS",
    "NOT_IN_TRAILERS",
    "OF_A_CONNECTION",
    "TRACE",
    "check_host",
    "check_transfer_encoding",
    "content_coding",
    "joined",
    "picked",
    "wants_continue",
    "with_query",
    "without_upgrade",
]

TRACE = b"traceparent"  #: of W3C Trace Context: who asked, for whoever follows a request
MAX_KNOWN_HOSTS = 64
#: those that llhttp knows for HTTP; compared as they are (RFC 9110 9.1)
METHODS = frozenset(
    b"DELETE GET HEAD POST PUT CONNECT OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH"
    b" UNLOCK BIND REBIND UNBIND ACL REPORT MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY SUBSCRIBE"
    b" UNSUBSCRIBE PATCH PURGE MKCALENDAR LINK UNLINK QUERY".split()
)
#: they speak of a connection (RFC 9113 8.2.2)
OF_A_CONNECTION = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
#: nor may what comes behind a body say how long it was
NOT_IN_TRAILERS = OF_A_CONNECTION | {b"content-length", b"te"}
# RFC 9112 3.2 and RFC 3986 3.2.2: a name, an IPv4 or a bracketed IPv6 address, and a port
HOST = re.compile(
    rb"(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
)
#: fields that mean one thing only, so that a second one is not a longer list
SINGLE = frozenset(
    (b"host", b"content-type", b"transfer-encoding", b"content-length", b"authorization")
)

#: ``Host`` values found well-formed; bounded, shared by all connections
known_hosts: set[bytes] = set()


def check_host(host: bytes | None) -> None:
    """Take the value of ``Host``, or the authority of a request target."""
    if host is None or not HOST.fullmatch(host):
        raise RequestError("Host: missing or malformed")
    if len(known_hosts) < MAX_KNOWN_HOSTS:
        known_hosts.add(host)


def check_transfer_encoding(value: bytes, headers: dict[bytes, bytes], version: str) -> None:
    """Take ``chunked`` and nothing else (RFC 9112 6.1, 6.3)."""
    if version == "1.0":
        raise RequestError("Transfer-Encoding: not in HTTP/1.0")
    if b"content-length" in headers:
        raise RequestError("Transfer-Encoding and Content-Length: only one can be true")
    codings = [coding.strip(b" \t") for coding in value.lower().split(b",")]
    if codings[-1] != b"chunked" or b"chunked" in codings[:-1] or b"" in codings:
        raise RequestError("Transfer-Encoding: chunked is not the last coding, or is there twice")
    if len(codings) > 1:
        raise NotSupported("Transfer-Encoding: only chunked is taken")


def content_coding(value: bytes, taken: Sequence[str]) -> bytes:
    """Return the one coding that ``Content-Encoding`` names, if it is *taken*, or ``identity``.

    :raises UnknownCoding: it is another, or several.
    """
    name = value.lower().decode("latin-1")
    name = "gzip" if name == "x-gzip" else name  # RFC 9110 8.4.1.3
    if name not in ("identity", *taken):
        accepted = taken or ("identity",)
        raise UnknownCoding(
            f"Content-Encoding: only {' or '.join(accepted)} is taken", accepted=accepted
        )
    return name.encode()


def wants_continue(expectations: bytes) -> bool:
    """Return whether the client waits for a 100 before it sends the body (RFC 9110 10.1.1)."""
    for expectation in expectations.split(b","):
        if expectation.strip(b" \t").lower() not in (b"100-continue", b""):
            raise ExpectationFailed("Expect: only 100-continue is met")
    return bool(expectations)


def joined(name: bytes, first: bytes, second: bytes) -> bytes:
    """Return a repeated field as one list; fields that mean one thing only may not repeat."""
    if name in SINGLE:
        raise RequestError(f"{name.decode()}: given twice")
    return first + (b"; " if name == b"cookie" else b", ") + second


def with_query(headers: dict[bytes, bytes], target: bytes) -> dict[bytes, bytes]:
    """Return *headers*, and the query of the request target *target* as one of them."""
    return {**headers, QUERY.encode(): target.partition(b"?")[2]} if b"?" in target else headers


def picked(headers: dict[bytes, bytes], names: Iterable[str]) -> dict[str, str]:
    """Return what *names* say of *headers*, and of the query that is among them; and the trace."""
    names = (TRACE.decode(), *names)
    found = ((name, headers.get(name.encode())) for name in names)
    told = {name: value.decode("latin-1") for name, value in found if value is not None}
    if query := headers.get(QUERY.encode()):
        pairs = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True)
        told |= {QUERY + name: value for name, value in pairs if QUERY + name in names}
    return told


def without_upgrade(headers: dict[bytes, bytes]) -> list[bytes]:
    """Return the lines of *headers* without the wish for another protocol."""
    headers = {name: value for name, value in headers.items() if name != b"upgrade"}
    options = [option.strip() for option in headers.pop(b"connection", b"").split(b",")]
    options = [option for option in options if option and option.lower() != b"upgrade"]
    if options:
        headers[b"connection"] = b", ".join(options)
    return [b"%b: %b" % field for field in headers.items()]

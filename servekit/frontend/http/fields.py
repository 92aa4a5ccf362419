# SPDX-License-Identifier: Apache-2.0
"""The rules for header fields that decide about framing and routing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from servekit.errors import (
    ClientError,
    ExpectationFailed,
    HeadersTooLarge,
    NotSupported,
    RequestError,
    UnknownCoding,
    VersionNotSupported,
)
from servekit.ipc.batches import QUERY
from servekit.ipc.table import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "CONNECTION_FIELDS",
    "METHODS",
    "NOT_IN_TRAILERS",
    "SECRETS",
    "TIMEOUT_FIELD",
    "TRACE",
    "check_host",
    "check_size",
    "check_transfer_encoding",
    "check_version_and_host",
    "content_coding",
    "joined",
    "milliseconds",
    "picked",
    "wants_continue",
    "with_query",
    "without_upgrade",
]

TRACE = b"traceparent"  #: W3C Trace Context
TIMEOUT_FIELD = b"x-request-timeout-ms"
MILLISECONDS = re.compile(rb"[0-9]{1,9}")
SECRETS = (b"authorization", b"proxy-authorization")  #: fields that models do not get
MAX_KNOWN_HOSTS = 64
#: the methods of HTTP that llhttp knows; their case matters (RFC 9110 9.1)
METHODS = frozenset(
    b"DELETE GET HEAD POST PUT CONNECT OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH"
    b" UNLOCK BIND REBIND UNBIND ACL REPORT MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY SUBSCRIBE"
    b" UNSUBSCRIBE PATCH PURGE MKCALENDAR LINK UNLINK QUERY".split()
)
#: connection-specific fields (RFC 9113 8.2.2)
CONNECTION_FIELDS = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
#: fields that a trailer section must not have: its body has ended already
NOT_IN_TRAILERS = CONNECTION_FIELDS | {b"content-length", b"te"}
# RFC 9112 3.2 and RFC 3986 3.2.2: a name, an IPv4 or a bracketed IPv6 address, and a port
HOST = re.compile(
    rb"(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
)
#: fields with one value: a second one is an error, not a longer list
SINGLE = frozenset(
    (b"host", b"content-type", b"transfer-encoding", b"content-length", b"authorization")
)

#: ``Host`` values found well-formed; bounded, shared by all connections
known_hosts: set[bytes] = set()


def check_host(host: bytes | None) -> None:
    """Check the value of ``Host``, or the authority of a request target."""
    if host is None or not HOST.fullmatch(host):
        raise RequestError("Host: missing or malformed")
    if len(known_hosts) < MAX_KNOWN_HOSTS:
        known_hosts.add(host)


def check_version_and_host(version: str, host: bytes | None) -> str:
    """Return the version that a request is handled as: ``2``, ``1.1`` or ``1.0``."""
    if version not in ("2", "1.1", "1.0"):
        if version == "0.9":  # llhttp's name for a request line without a version
            raise RequestError("request line: it names no version of HTTP")
        if version[:2] != "1.":
            raise VersionNotSupported("only HTTP/1.1 and HTTP/1.0 are supported")
    if host is not None or version != "1.0":
        check_host(host)
    return version if version in ("2", "1.0") else "1.1"  # the highest known 1.x (RFC 9110 2.5)


def check_size(headers: dict[bytes, bytes], limit: int) -> None:
    """Refuse a header section of more than *limit* bytes."""
    size = sum(len(name) + len(value) + 4 for name, value in headers.items())
    if size > limit:
        raise HeadersTooLarge(f"header section: {size} bytes, limit {limit}")


def check_transfer_encoding(value: bytes, headers: dict[bytes, bytes], version: str) -> None:
    """Accept ``chunked`` only (RFC 9112 6.1, 6.3)."""
    if version == "1.0":
        raise RequestError("Transfer-Encoding: not allowed in HTTP/1.0")
    if b"content-length" in headers:
        raise RequestError("Transfer-Encoding and Content-Length: only one is allowed")
    codings = [coding.strip(b" \t") for coding in value.lower().split(b",")]
    if codings[-1] != b"chunked" or b"chunked" in codings[:-1] or b"" in codings:
        raise RequestError("Transfer-Encoding: chunked must appear exactly once, last")
    if len(codings) > 1:
        raise NotSupported("Transfer-Encoding: only chunked is supported")


def content_coding(value: bytes, taken: Sequence[str]) -> bytes:
    """Return the coding that ``Content-Encoding`` names: one of *taken*, or ``identity``.

    :raises UnknownCoding: it names another one, or several.
    """
    name = value.lower().decode("latin-1")
    name = "gzip" if name == "x-gzip" else name  # RFC 9110 8.4.1.3
    if name not in ("identity", *taken):
        accepted = taken or ("identity",)
        raise UnknownCoding(
            f"Content-Encoding: only {' or '.join(accepted)} is supported", accepted=accepted
        )
    return name.encode()


def wants_continue(expectations: bytes) -> bool:
    """Return whether the client waits for a 100 before it sends the body (RFC 9110 10.1.1)."""
    for expectation in expectations.split(b","):
        if expectation.strip(b" \t").lower() not in (b"100-continue", b""):
            raise ExpectationFailed("Expect: only 100-continue is supported")
    return bool(expectations)


def milliseconds(asked: bytes) -> int:
    """Return the value of ``X-Request-Timeout-Ms``."""
    if not MILLISECONDS.fullmatch(asked):
        raise ClientError("X-Request-Timeout-Ms: not a whole number of milliseconds")
    return int(asked)


def joined(name: bytes, first: bytes, second: bytes) -> bytes:
    """Return a repeated field as one list; fields with one value must not be repeated."""
    if name in SINGLE:
        raise RequestError(f"{name.decode()}: given twice")
    return first + (b"; " if name == b"cookie" else b", ") + second


def with_query(headers: dict[bytes, bytes], target: bytes) -> dict[bytes, bytes]:
    """Return *headers* with the query of the request target *target* added as a pseudo-header."""
    return {**headers, QUERY.encode(): target.partition(b"?")[2]} if b"?" in target else headers


def every_name(headers: dict[bytes, bytes]) -> list[str]:
    """Return the names of all headers but secrets, and of all parameters of the query."""
    query = headers.get(QUERY.encode(), b"").decode("utf-8", "replace")
    parameters = [QUERY + name for name, _ in parse_qsl(query, keep_blank_values=True)]
    hidden = (QUERY.encode(), *SECRETS)
    return [name.decode("latin-1") for name in headers if name not in hidden] + parameters


def picked(headers: dict[bytes, bytes], names: Iterable[str]) -> dict[str, str]:
    """Return the values of *names* in *headers* and their query; and ``traceparent``."""
    names = (TRACE.decode(), *names)
    if EVERYTHING in names:
        names = every_name(headers)
    found = ((name, headers.get(name.encode())) for name in names)
    values = {name: value.decode("latin-1") for name, value in found if value is not None}
    if query := headers.get(QUERY.encode()):
        pairs = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True)
        values |= {QUERY + name: value for name, value in pairs if QUERY + name in names}
    return values


def without_upgrade(headers: dict[bytes, bytes]) -> list[bytes]:
    """Return the lines of *headers* without the request for another protocol."""
    headers = {name: value for name, value in headers.items() if name != b"upgrade"}
    options = [option.strip() for option in headers.pop(b"connection", b"").split(b",")]
    options = [option for option in options if option and option.lower() != b"upgrade"]
    if options:
        headers[b"connection"] = b", ".join(options)
    return [b"%b: %b" % field for field in headers.items()]

# SPDX-License-Identifier: Apache-2.0
"""What RFC 9112 says of a stream of requests, written for clearness: the judge of the front-end.

It knows two verdicts: a request that is well-formed beyond doubt, and doubt, after which nothing
of the connection may be believed.
"""

import re
from typing import NamedTuple

__all__ = ["Request", "read"]

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE")
LINE = re.compile(rb"([A-Z]+) (/[A-Za-z0-9/?=._-]*) HTTP/1\.([01])\r\n")
FIELD = re.compile(
    rb"(" + TOKEN + rb"):[ \t]*([!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?[ \t]*\r\n"
)
HOST = re.compile(rb"[A-Za-z0-9.-]+(:[0-9]{1,5})?")
LENGTH = re.compile(rb"[0-9]{1,8}")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,7})(?:;" + TOKEN + rb"=" + TOKEN + rb")*\r\n")
MAX_TARGET = 8000
PLAIN_FIELDS = (
    b"host",
    b"content-length",
    b"transfer-encoding",
    b"connection",
    b"x",
    b"content-type",
)


class Request(NamedTuple):
    """One request, beyond doubt."""

    method: bytes
    target: bytes
    body: bytes
    is_last: bool  #: the client said that no other follows


class Doubt(Exception):
    """The stream is not, or not yet, a request."""


def read(stream: bytes) -> tuple[list[Request], bytes]:
    """Return the requests at the head of *stream*, and what follows them and is in doubt."""
    found: list[Request] = []
    while stream and not (found and found[-1].is_last):
        try:
            request, stream = _read_one(stream)
        except Doubt:
            return found, stream
        found.append(request)
    return found, stream


def _read_one(stream: bytes) -> tuple[Request, bytes]:
    line = LINE.match(stream)
    if not line or line[1] not in METHODS or len(line[2]) > MAX_TARGET:
        raise Doubt
    fields, rest = _read_fields(stream[line.end() :])
    is_old = line[3] == b"0"
    if not HOST.fullmatch(fields.get(b"host", b"")):
        raise Doubt
    body, rest = _read_body(fields, rest, is_old=is_old)
    connection = fields.get(b"connection", b"").lower()
    if connection not in (b"", b"close", b"keep-alive"):
        raise Doubt
    is_last = connection == b"close" or (is_old and connection != b"keep-alive")
    return Request(line[1], line[2], body, is_last), rest


def _read_fields(stream: bytes) -> tuple[dict[bytes, bytes], bytes]:
    fields: dict[bytes, bytes] = {}
    while not stream.startswith(b"\r\n"):
        field = FIELD.match(stream)
        if not field or field[1].lower() in fields or field[1].lower() not in PLAIN_FIELDS:
            raise Doubt  # a second one may be a list, and others mean things of their own
        fields[field[1].lower()] = field[2] or b""
        stream = stream[field.end() :]
    return fields, stream[2:]


def _read_body(fields: dict[bytes, bytes], rest: bytes, *, is_old: bool) -> tuple[bytes, bytes]:
    if b"transfer-encoding" in fields:
        if is_old or b"content-length" in fields or fields[b"transfer-encoding"] != b"chunked":
            raise Doubt
        return _read_chunks(rest)
    length = fields.get(b"content-length", b"0")
    if not LENGTH.fullmatch(length) or len(rest) < int(length):
        raise Doubt
    return rest[: int(length)], rest[int(length) :]


def _read_chunks(stream: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        head = CHUNK.match(stream)
        if not head:
            raise Doubt
        size = int(head[1], 16)
        if not size:
            trailers, rest = _read_fields(stream[head.end() :])
            if trailers.keys() - {b"x"}:
                raise Doubt  # RFC 9110 6.5.1: what frames or routes may not come so late
            return body, rest
        end = head.end() + size
        if stream[end : end + 2] != b"\r\n":
            raise Doubt
        body += stream[head.end() : end]
        stream = stream[end + 2 :]

# SPDX-License-Identifier: Apache-2.0
"""Compresses responses for clients that accept it (RFC 9110 12.5.3), if that is turned on."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from servekit.extension.exchange import InThread
from servekit.frontend.middleware.codings import coding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.extension.middleware import Proceed
    from servekit.frontend.middleware.codings import Coding

__all__ = ["Compression", "create_codings"]

VARY: Final = ("Vary", "Accept-Encoding")
INLINE_BYTES: Final = 64 * 1024  #: bodies from this size on are compressed in a thread
MAX_KNOWN: Final = 64
QUALITY: Final = rb"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?"
CODING: Final = re.compile(rb"\s*([\w*-]+)\s*(?:;\s*[Qq]\s*=\s*(%b)\s*)?" % QUALITY)
#: media types whose content is compressed already
DENSE: Final = re.compile(
    r"image/(?!svg)|audio/|video/|application/(?:zip|gzip|zstd)\b", re.IGNORECASE
)


def create_codings(names: Iterable[str]) -> dict[bytes, Coding]:
    """Return the codings called *names*.

    :raises StartupError: the library for zstd is not installed.
    """
    return {name.encode(): coding(name) for name in names}


class Compression:
    """Middleware that compresses responses, except for streams.

    An event must not wait in a compressor for the next one.
    """

    def __init__(self, codings: Mapping[bytes, Coding], minimum: int) -> None:
        """Offer *codings*, best first, for responses of *minimum* bytes and more."""
        self._codings = codings
        self._minimum = minimum
        self._known: dict[bytes, bytes] = {}  #: bounded

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Compress the response if the client accepts that and it saves something."""
        exchange.add_filter(partial(self._compress, self._choose(request.headers)))
        proceed(exchange, request)

    def _choose(self, headers: dict[bytes, bytes]) -> bytes:
        """Return the coding for the response to a request with *headers*; "" for none."""
        accepted = headers.get(b"accept-encoding", b"")
        coding = self._known.get(accepted)
        if coding is None:
            coding = best(accepted, list(self._codings))
            if len(self._known) < MAX_KNOWN:
                self._known[accepted] = coding
        return coding

    def _compress(self, coding: bytes, response: HttpResponse) -> HttpResponse | InThread:
        if response.error is not None or response.is_streamed:
            return response
        response.fields = [*response.fields, VARY]
        body = response.body
        if not coding or len(body) < self._minimum or _is_left_alone(response):
            return response
        compress = partial(_compressed, self._codings[coding], body)
        if len(body) >= INLINE_BYTES:
            return InThread(compress, partial(_replace_body, response, coding))
        return _replace_body(response, coding, compress())


def _compressed(coding: Coding, body: bytes | memoryview) -> bytes | None:
    """Return *body* in *coding*, if there is memory for it."""
    try:
        return coding.compress(body)
    except MemoryError:
        return None


def _replace_body(response: HttpResponse, coding: bytes, body: bytes | None) -> HttpResponse:
    """Return *response* with the same body in *coding*, if there is one."""
    if body is not None:
        response.discard()
        response.body = body
        response.fields = [_weakened(*field) for field in response.fields]
        response.fields.append(("Content-Encoding", coding.decode()))
    return response


def _weakened(name: str, value: str) -> tuple[str, str]:
    """Return a field of a response whose bytes have changed: its ETag is weak (RFC 9110 8.8.1)."""
    is_strong = name.lower() == "etag" and value.startswith('"')
    return name, f"W/{value}" if is_strong else value


def _is_left_alone(response: HttpResponse) -> bool:
    """Whether the body is compressed already, or is a part of a whole that is not."""
    names = {name.lower() for name, _ in response.fields}
    is_dense = DENSE.match(response.media_type) is not None
    return is_dense or not names.isdisjoint(("content-encoding", "content-range"))


def best(accepted: bytes, offered: Sequence[bytes]) -> bytes:
    """Return the coding of *offered* with the highest quality, the first of equals; "" for none.

    A client that refuses everything, even ``identity``, gets that (RFC 9110 12.4.1).
    """
    qualities: dict[bytes, float] = {}
    for part in accepted.lower().split(b","):
        if found := CODING.fullmatch(part):
            name = b"gzip" if found[1] == b"x-gzip" else found[1]
            qualities[name] = float(found[2]) if found[2] else 1.0
    by_coding = {name: qualities.get(name, qualities.get(b"*", 0.0)) for name in offered}
    name = max(by_coding, key=lambda name: by_coding[name])
    is_better = by_coding[name] >= qualities.get(b"identity", 0.001)
    return name if by_coding[name] and is_better else b""

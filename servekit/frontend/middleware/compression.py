# SPDX-License-Identifier: Apache-2.0
"""Compresses responses for clients that ask for it (RFC 9110 12.5.3), where it is turned on."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from servekit.extension.exchange import InThread
from servekit.extension.http import NO_LENGTH
from servekit.extension.problems import PROBLEM
from servekit.frontend.middleware.codings import coding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest, HttpResponse
    from servekit.extension.middleware import Proceed
    from servekit.frontend.middleware.codings import Coding
    from servekit.settings import Settings

__all__ = ["Compression", "create_codings"]

VARY: Final = ("Vary", "Accept-Encoding")
INLINE_BYTES: Final = 64 * 1024  #: from here on a thread does it, and the loop goes on
MAX_KNOWN: Final = 64
CODING: Final = re.compile(rb"\s*([\w*-]+)\s*(?:;\s*[Qq]\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")
#: media types whose content is compressed already
PACKED: Final = re.compile(
    r"image/(?!svg)|audio/|video/|application/(?:zip|gzip|zstd)\b", re.IGNORECASE
)


def create_codings(settings: Settings) -> dict[bytes, Coding]:
    """Return the codings that *settings* ask for; none where compression is off.

    :raises StartupError: the library for zstd is not installed.
    """
    return {name.encode(): coding(name) for name in settings.compression or ()}


class Compression:
    """Middleware that compresses responses, and accepts bodies in the same codings.

    Streams are never compressed: an event must not wait in a compressor for the next one.
    """

    def __init__(self, codings: Mapping[bytes, Coding], minimum: int) -> None:
        """Offer *codings*, best first, for responses of *minimum* bytes and more."""
        self._codings = codings
        self._minimum = minimum
        self._known: dict[bytes, bytes] = {}  #: bounded

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Have the response compressed if the client takes that and it is worth it."""
        coding = self._choose(request.headers)
        exchange.add_filter(lambda response: self._compress(response, coding))
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

    def _compress(self, response: HttpResponse, coding: bytes) -> HttpResponse | InThread:
        if response.media_type == PROBLEM or response.length == NO_LENGTH:
            return response
        response.fields = [*response.fields, VARY]
        body = response.body
        if not coding or len(body) < self._minimum or _is_left_alone(response):
            return response
        if len(body) >= INLINE_BYTES:
            return InThread(partial(self._compressed, response, coding))
        return self._compressed(response, coding)

    def _compressed(self, response: HttpResponse, coding: bytes) -> HttpResponse:
        """Return *response* with its body in *coding*. Runs in a thread if it is large."""
        try:
            packed = self._codings[coding].compress(response.body)
        except MemoryError:
            return response
        response.discard()
        response.body = packed
        response.fields = [_weakened(*field) for field in response.fields]
        response.fields.append(("Content-Encoding", coding.decode()))
        return response


def _weakened(name: str, value: str) -> tuple[str, str]:
    """Return a field of a response whose bytes have changed: its ETag is weak (RFC 9110 8.8.1)."""
    is_strong = name.lower() == "etag" and value.startswith('"')
    return name, f"W/{value}" if is_strong else value


def _is_left_alone(response: HttpResponse) -> bool:
    """Whether the body is compressed already, or a part of one that is not."""
    names = {name.lower() for name, _ in response.fields}
    is_packed = PACKED.match(response.media_type) is not None
    return is_packed or not names.isdisjoint(("content-encoding", "content-range"))


def best(accepted: bytes, offered: Sequence[bytes]) -> bytes:
    """Return the coding of *offered* with the highest quality, the first of equals; "" for none.

    Who takes nothing at all, not even what is not compressed, gets that (RFC 9110 12.4.1).
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

# SPDX-License-Identifier: Apache-2.0
"""Compresses answers for clients that ask for it (RFC 9110 12.5.3), where it is turned on.

Streams are never compressed: an event must not wait in a compressor for the next one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import gevent

from servekit.frontend.middleware.codings import coding
from servekit.frontend.middleware.decompression import Unpacker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.middleware.codings import Coding
    from servekit.settings import Settings

__all__ = ["VARY", "Compression", "create_compression"]

VARY = b"Vary: Accept-Encoding\r\n"
LENGTH = b"Content-Length: "
INLINE_BYTES = 64 * 1024  #: from here on a thread does it, and the loop goes on
MAX_KNOWN = 64
CODING = re.compile(rb"\s*([\w*-]+)\s*(?:;\s*[Qq]\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")
#: what is compressed already, and a part of a whole that is not
LEFT_ALONE = re.compile(
    rb"\r\nContent-(?:Type: (?:image/(?!svg)|audio/|video/|application/(?:zip|gzip|zstd)\b)"
    rb"|Encoding:|Range:)",
    re.IGNORECASE,
)


def create_compression(settings: Settings) -> Compression | None:
    """Return what *settings* ask for; ``None`` where compression is off.

    :raises StartupError: there is no library for zstd.
    """
    if not settings.compression:
        return None
    codings = {name.encode(): coding(name) for name in settings.compression}
    return Compression(codings, settings.compression_min, settings.max_body)


class Compression:
    """Chooses a coding for each request, and compresses what is worth it."""

    def __init__(self, codings: Mapping[bytes, Coding], minimum: int, max_body: int) -> None:
        """Offer *codings*, best first, for answers of *minimum* bytes and more.

        :param max_body: the most that a request's body may have when it is unpacked.
        """
        self._codings = codings
        self.unpacker = Unpacker(codings, max_body)  #: of requests in the same codings
        self._minimum = minimum
        self._known: dict[bytes, bytes] = {}  #: bounded

    def choose(self, headers: dict[bytes, bytes]) -> bytes:
        """Return the coding for the answer to a request with *headers*; "" for none."""
        accepted = headers.get(b"accept-encoding", b"")
        coding = self._known.get(accepted)
        if coding is None:
            coding = best(accepted, list(self._codings))
            if len(self._known) < MAX_KNOWN:
                self._known[accepted] = coding
        return coding

    def is_worth(self, head: bytes, body: bytes | memoryview) -> bool:
        """Whether an answer gets smaller, as far as its size and its type tell."""
        return len(body) >= self._minimum and not LEFT_ALONE.search(head)

    def answer(
        self,
        connection: Asker,
        coding: bytes,
        head: bytes,
        body: bytes | memoryview,
        release: Callable[[], None] | None,
    ) -> None:
        """Answer on *connection* with *body* in *coding*; a large one takes a moment.

        :param head: whose last line is ``Content-Length``.
        """
        if len(body) < INLINE_BYTES:
            _send(connection, coding, head, self._codings[coding].compress(body))
            if release is not None:
                release()
        else:
            gevent.spawn(self._answer_later, connection, coding, head, body, release)

    def _answer_later(
        self,
        connection: Asker,
        coding: bytes,
        head: bytes,
        body: bytes | memoryview,
        release: Callable[[], None] | None,
    ) -> None:
        try:
            packed = gevent.get_hub().threadpool.apply(self._codings[coding].compress, (body,))
        except MemoryError:
            connection.answer(head, body, release)
            return
        if release is not None:
            release()
        _send(connection, coding, head, packed)


def _send(connection: Asker, coding: bytes, head: bytes, packed: bytes) -> None:
    lines = head[: head.rindex(LENGTH)].replace(b'\r\nETag: "', b'\r\nETag: W/"')
    lines += b"Content-Encoding: %b\r\n%b%d\r\n" % (coding, LENGTH, len(packed))
    connection.answer(lines, packed)


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

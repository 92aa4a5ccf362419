# SPDX-License-Identifier: Apache-2.0
"""Decompresses the bodies of requests.

The limit of all bodies applies to the content, piece by piece, so a few bytes that hold gigabytes
cost no more than a body that is too large. Only small bodies are decompressed in the event loop,
the others in a thread.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Self

import gevent

from servekit.errors import BodyMalformed, BodyTooLarge, QueueFull, ServekitError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Proceed
    from servekit.frontend.exchange.protocols import Find
    from servekit.frontend.memory.pressure import Pressure
    from servekit.frontend.middleware.codings import Coding
    from servekit.settings import Settings

__all__ = ["Decompression", "decompressed"]

PIECE_BYTES = 64 * 1024  #: read, and written, at a time; one is decompressed in the loop
MAX_FRAMES = 1024  #: of one body: even an empty one takes time


class Decompression:
    """Middleware that accepts bodies in content codings."""

    def __init__(
        self, codings: Mapping[bytes, Coding], settings: Settings, find: Find, pressure: Pressure
    ) -> None:
        """Accept *codings*, and bodies of at most ``max_body`` bytes once decompressed.

        :param find: looks up the route of a request.
        """
        self._codings = codings
        self._max_body = settings.max_body
        self._find = find
        self._pressure = pressure

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Pass *request* on once its body is decompressed."""
        name = request.headers.get(b"content-encoding")
        coding = self._codings.get(name) if name is not None else None
        if coding is None or request.refusal is not None or self._pressure.is_full:
            proceed(exchange, request)
            return
        content = request.content
        pieces = InflatedBody(decompressed(content, coding), self._max_body, self._pressure)
        if len(content) > PIECE_BYTES:
            gevent.spawn(self._proceed_later, exchange, request, proceed, pieces)
            return
        try:
            begun = [next(pieces, b"")]
            last = next(pieces, None)  # takes no time if the first piece was the only one
        except ServekitError as error:
            self._refuse(exchange, request, proceed, error)
            return
        if last is None:
            self._go_on(exchange, request, proceed, begun)
        else:
            begun.append(last)
            gevent.spawn(self._proceed_later, exchange, request, proceed, pieces, begun)

    def _proceed_later(
        self,
        exchange: Exchange,
        request: HttpRequest,
        proceed: Proceed,
        pieces: InflatedBody,
        begun: Sequence[bytes] = (),
    ) -> None:
        """Decompress the rest in a thread. Runs in a greenlet."""
        try:
            whole = gevent.get_hub().threadpool.apply(_together, (chain(begun, pieces),))
            if isinstance(whole, ServekitError):
                self._refuse(exchange, request, proceed, whole)
            else:
                self._go_on(exchange, request, proceed, whole)
        finally:
            pieces.close()

    def _go_on(
        self, exchange: Exchange, request: HttpRequest, proceed: Proceed, pieces: list[bytes]
    ) -> None:
        """Pass *request* on as if it had come with *pieces* as its body."""
        request.discard()
        if exchange.is_closed:
            return
        headers = request.headers
        del headers[b"content-encoding"]
        headers.pop(b"content-length", None)  # it was that of the compressed body
        request.route = route = self._find(request.method, request.target, request.headers)
        if route is None:
            request.body = b"".join(pieces)
        else:
            request.body = route.bodies.lay(pieces)
        proceed(exchange, request)

    def _refuse(
        self, exchange: Exchange, request: HttpRequest, proceed: Proceed, error: ServekitError
    ) -> None:
        request.discard()
        request.route = route = self._find(request.method, request.target, request.headers)
        if route is not None:
            route.metrics.count_status(error.status)
        request.refusal = error.with_traceback(None)  # whose frames refer to the request
        proceed(exchange, request)


class InflatedBody:
    """The pieces of a body that is decompressed: limited, and counted as held until ``close``."""

    def __init__(self, pieces: Iterator[bytes], limit: int, pressure: Pressure) -> None:
        """Yield *pieces* of at most *limit* bytes together."""
        self._pieces, self._limit, self._pressure = pieces, limit, pressure
        self._size = 0
        self._counted = 0  #: bytes that *pressure* counts: all but those of the first piece

    def __iter__(self) -> Self:
        """Return the iterator of the pieces."""
        return self

    def __next__(self) -> bytes:
        """Return the next piece. In any thread.

        :raises BodyTooLarge: the content has more bytes than the limit.
        :raises QueueFull: too little memory is left for it.
        """
        piece = next(self._pieces)
        more = len(piece) if self._size else 0
        self._size += len(piece)
        if self._size > self._limit:
            raise BodyTooLarge(f"body: more than {self._limit} bytes once decompressed")
        if more and not self._pressure.hold_inflated(more):
            raise QueueFull
        self._counted += more
        return piece

    def close(self) -> None:
        """Count it no longer: somebody else does, or it is dropped."""
        self._pressure.hold_inflated(-self._counted)
        self._counted = 0


def decompressed(content: bytes | memoryview, coding: Coding) -> Iterator[bytes]:
    """Yield *content* decompressed, in pieces of 1 to ``PIECE_BYTES`` bytes.

    :raises BodyMalformed: it is not in *coding*, or ends early.
    """
    decompressor, frames = coding.decompressor(), 1
    try:
        for start in range(0, len(content), PIECE_BYTES):
            data = bytes(content[start : start + PIECE_BYTES])
            while data or not (decompressor.needs_input or decompressor.eof):
                if decompressor.eof:
                    decompressor, frames = coding.decompressor(), frames + 1
                if piece := decompressor.decompress(data, PIECE_BYTES):
                    yield piece
                if frames > MAX_FRAMES:
                    raise BodyMalformed(f"Content-Encoding: more than {MAX_FRAMES} frames")
                data = decompressor.unused_data if decompressor.eof else b""
    except coding.error as error:
        raise BodyMalformed("Content-Encoding: the body is not in this coding") from error
    if not decompressor.eof:
        raise BodyMalformed("Content-Encoding: the body ends early")


def _together(pieces: Iterator[bytes]) -> list[bytes] | ServekitError:
    """Return all *pieces*, or why there are none. Runs in a thread."""
    try:
        return list(pieces)
    except ServekitError as error:
        return error
    except MemoryError:
        return Unavailable()

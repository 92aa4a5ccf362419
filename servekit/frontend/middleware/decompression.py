# SPDX-License-Identifier: Apache-2.0
"""Unpacks the bodies of requests that come compressed, where compression is turned on.

What comes out is held to the limit of any body, a piece at a time, so a few bytes that hold
gigabytes cost no more than a body that is too large. Only a little of it is done at once: the
rest is a thread's, and the loop goes on.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import gevent

from servekit.errors import BodyMalformed, BodyTooLarge, ServekitError, Unavailable
from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.middleware.codings import Coding
    from servekit.frontend.pipelines.pipeline import Pipeline

__all__ = ["Unpacker", "unpacked"]

PIECE_BYTES = 64 * 1024  #: taken, and given, at a time; one is unpacked at once
MAX_FRAMES = 1024  #: of one body: each costs, though it may hold nothing


class Unpacker:
    """Stands between a request that is whole and its way to a model."""

    def __init__(self, codings: Mapping[bytes, Coding], limit: int) -> None:
        """Take *codings*; let no body have more than *limit* bytes."""
        self._codings = codings
        self._limit = limit

    def route(
        self, connection: Asker, request: HttpRequest, batcher: Batcher | Pipeline | None
    ) -> None:
        """Send *request* on its way once its body is unpacked, or refuse it.

        :param batcher: of its model, if it has been looked up.
        """
        front_end = connection.front_end
        coding = self._codings.get(request.headers[b"content-encoding"])
        if coding is None or request.refusal is not None or front_end.pressure.is_full:
            front_end.route(connection, request, batcher)  # there is nothing to unpack
            return
        body = request.body
        content = batcher.bodies.content(body) if batcher is not None else body
        assert not isinstance(content, Slab)  # which only a model's bodies are
        pieces = self._bounded(unpacked(content, coding))
        if len(content) > PIECE_BYTES:
            gevent.spawn(self._route_later, connection, request, batcher, pieces)
            return
        try:
            begun = [next(pieces, b"")]
            last = next(pieces, None)  # which costs little where the first was all there is
        except ServekitError as error:
            _refuse(connection, request, batcher, error)
            return
        if last is None:
            _go_on(connection, request, batcher, begun)
        else:
            rest = chain(begun, [last], pieces)
            gevent.spawn(self._route_later, connection, request, batcher, rest)

    def _route_later(
        self,
        connection: Asker,
        request: HttpRequest,
        batcher: Batcher | Pipeline | None,
        pieces: Iterator[bytes],
    ) -> None:
        """Do the rest of it in a thread. Runs in a greenlet."""
        whole = gevent.get_hub().threadpool.apply(_together, (pieces,))
        if isinstance(whole, ServekitError):
            _refuse(connection, request, batcher, whole)
        else:
            _go_on(connection, request, batcher, whole)

    def _bounded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > self._limit:
                raise BodyTooLarge(f"body: more than {self._limit} bytes when it is unpacked")
            yield piece


def unpacked(content: bytes | memoryview, coding: Coding) -> Iterator[bytes]:
    """Yield what *content* holds, in pieces of at most ``PIECE_BYTES`` and none of them empty.

    :raises BodyMalformed: it is not what *coding* makes, or ends early.
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
        raise BodyMalformed("Content-Encoding: the body is not coded as it says") from error
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


def _go_on(
    connection: Asker,
    request: HttpRequest,
    batcher: Batcher | Pipeline | None,
    pieces: list[bytes],
) -> None:
    """Send *request* on as if it had come with *pieces* as its body."""
    _free(request, batcher)
    if connection.is_closed:
        return
    front_end, headers = connection.front_end, request.headers
    del headers[b"content-encoding"]
    headers.pop(b"content-length", None)  # it was that of what came
    batcher = front_end.router.find(request.method, request.target)
    if batcher is None:
        request.body = b"".join(pieces)
    else:
        request.body = batcher.bodies.lay(pieces, front_end.settings.large_body)
    front_end.route(connection, request, batcher)


def _refuse(
    connection: Asker,
    request: HttpRequest,
    batcher: Batcher | Pipeline | None,
    error: ServekitError,
) -> None:
    _free(request, batcher)
    front_end = connection.front_end
    batcher = front_end.router.find(request.method, request.target)
    if batcher is not None:
        batcher.metrics.count_status(error.status)
    request.refusal = error
    front_end.route(connection, request, batcher)


def _free(request: HttpRequest, batcher: Batcher | Pipeline | None) -> None:
    """Give back the shared memory that the packed body lay in."""
    if batcher is not None and isinstance(request.body, Slab):
        batcher.bodies.free(request.body)
    request.body = b""

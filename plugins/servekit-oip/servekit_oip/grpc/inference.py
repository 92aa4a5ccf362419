# SPDX-License-Identifier: Apache-2.0
"""ModelInfer and ModelStreamInfer. Runs in: the gRPC process.

Messages pass through unread: the worker of the model reads and writes them.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from servekit_oip.grpc.codes import GrpcError, StatusCode, code_of
from servekit_oip.grpc.http_connection import ConnectionCut, ConnectionStale
from servekit_oip.grpc.protocol import INFER, STREAM
from servekit_oip.grpc.wire import MESSAGE, error_piece, model_of, response_piece

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from servekit_oip.grpc.call import GrpcCall
    from servekit_oip.grpc.http import HttpClient
    from servekit_oip.grpc.http_connection import FrontEndAnswer

__all__ = ["UNAVAILABLE", "Inference", "error_of", "fields_of"]

MAX_BEGUN: Final = 64  #: requests of one stream that are answered at the same time
NAME: Final = re.compile(rb"[a-z0-9_.-]+")  #: of metadata that are passed on
VALUE: Final = re.compile(rb"[ -~]*")
UNAVAILABLE: Final = "no front-end answers; the server restarts or shuts down"
#: metadata that is not passed on: it is about the connection, or about the message
DROPPED: Final = frozenset(
    b"accept accept-encoding connection content-encoding content-length content-type expect host"
    b" keep-alive proxy-authorization proxy-connection te trailer transfer-encoding upgrade"
    b" user-agent x-request-timeout-ms".split()
)


def error_of(response: FrontEndAnswer, text: str | None = None) -> GrpcError:
    """Return the error that *response* reports.

    :param text: in place of the body.
    """
    known = ((name.lower(), response.field(name)) for name in ("X-Request-Id", "Retry-After"))
    details = response.body.decode("utf-8", "replace") if text is None else text
    trailers = tuple((name, value) for name, value in known if value)
    return GrpcError(code_of(response.status), details, trailers)


def fields_of(call: GrpcCall) -> bytes:
    """Return the header fields that say who asks, and until when: the metadata of the call."""
    fields = call.fields
    if fields.passed_on is None:
        fields.passed_on = b"".join(
            b"%b: %b\r\n" % (name, value)
            for name, value in fields.pairs
            if name not in DROPPED
            and not name.startswith(b"grpc-")
            and not name.endswith(b"-bin")
            and NAME.fullmatch(name)
            and VALUE.fullmatch(value)
        )
    remaining_s = call.time_remaining()
    if remaining_s is None:
        return fields.passed_on
    limit_ms = max(1, int(remaining_s * 1000))
    return b"%bx-request-timeout-ms: %d\r\n" % (fields.passed_on, limit_ms)


@lru_cache(maxsize=1024)
def start_of(path: str, model: str, version: str) -> bytes:
    """Return the head of an inference, up to its length."""
    target = path + "/".join(quote(name, safe="") for name in (model, version) if name)
    head = f"POST {target} HTTP/1.1\r\nHost: grpc\r\nContent-Type: {MESSAGE}\r\n"
    return f"{head}Content-Length: ".encode()


class Inference:
    """The calls that predict."""

    def __init__(self, http: HttpClient) -> None:
        """Have the front-ends answer."""
        self._http = http

    def infer(self, message: bytes, call: GrpcCall) -> None:
        """Answer ModelInfer. Without a task, where a connection is idle."""
        try:
            head = head_of(INFER, message, call)
        except ValueError as error:
            call.fail(GrpcError(StatusCode.INVALID_ARGUMENT, str(error)))
            return
        connection = self._http.take()
        if connection is None:
            self._infer_slowly(head, message, call)
            return

        def on_answer(answer: FrontEndAnswer | ConnectionError) -> None:
            if isinstance(answer, ConnectionStale):
                self._infer_slowly(head, message, call)
            else:
                self._http.keep(connection)
                _finish(call, answer)

        call.cancel = connection.abort
        connection.begin(head, message, on_answer)

    def _infer_slowly(self, head: bytes, message: bytes, call: GrpcCall) -> None:
        """Do the same over a new connection."""

        async def ask() -> None:
            try:
                answer: FrontEndAnswer | OSError = await self._http.ask(head, message)
            except OSError as error:
                answer = error
            _finish(call, answer)

        call.task = asyncio.create_task(ask())
        call.cancel = call.task.cancel

    async def stream(self, messages: AsyncIterator[bytes], call: GrpcCall) -> AsyncIterator[bytes]:
        """PendingAnswer ModelStreamInfer: several requests at a time, in their order."""
        answers: asyncio.Queue[PendingAnswer | None] = asyncio.Queue(MAX_BEGUN)
        begun: set[PendingAnswer] = set()
        reader = asyncio.create_task(self._begin_each(messages, call, answers, begun))
        try:
            while (answer := await answers.get()) is not None:
                while (piece := await answer.next()) is not None:
                    yield piece
                begun.discard(answer)
            await reader
        finally:
            reader.cancel()
            for answer in begun:
                answer.cancel()

    async def _begin_each(
        self,
        messages: AsyncIterator[bytes],
        call: GrpcCall,
        answers: asyncio.Queue[PendingAnswer | None],
        begun: set[PendingAnswer],
    ) -> None:
        try:
            async for message in messages:
                answer = PendingAnswer(self._pieces(message, call))
                begun.add(answer)
                await answers.put(answer)
        finally:
            if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                await answers.put(None)

    async def _pieces(self, message: bytes, call: GrpcCall) -> AsyncIterator[bytes]:
        """Yield the ModelStreamInferResponses that answer *message*; an error is one of them."""
        try:
            response = await self._http.ask(head_of(STREAM, message, call), message)
            if response.pieces is not None:
                async for piece in unframed(response.pieces):
                    yield piece
            elif response.status != 200:
                yield error_piece(response.body.decode("utf-8", "replace"))
            else:
                yield response_piece(response.body)
        except ValueError as error:
            yield error_piece(str(error))
        except OSError:
            yield error_piece(UNAVAILABLE)


def head_of(path: str, message: bytes, call: GrpcCall) -> bytes:
    """Return the head of the request for an inference.

    :raises ValueError: *message* names no model.
    """
    model, version = model_of(message)
    if not model:
        raise ValueError("model_name: missing")
    return b"%b%d\r\n%b\r\n" % (start_of(path, model, version), len(message), fields_of(call))


def _finish(call: GrpcCall, answer: FrontEndAnswer | OSError) -> None:
    """End *call* with what the front-end has answered."""
    if isinstance(answer, OSError):
        call.fail(GrpcError(StatusCode.UNAVAILABLE, UNAVAILABLE))
    elif answer.status == 200:
        call.finish(answer.body)
    else:
        call.fail(error_of(answer))


class PendingAnswer:
    """The answer to one request of a stream; it is made while earlier ones are sent."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        """Begin to read *pieces*."""
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_BEGUN)
        self._task = asyncio.create_task(self._read(pieces))

    async def next(self) -> bytes | None:
        """Return the next piece; ``None``: there are no more."""
        return await self._queue.get()

    def cancel(self) -> None:
        """Drop the request."""
        self._task.cancel()

    async def _read(self, pieces: AsyncIterator[bytes]) -> None:
        async for piece in pieces:
            await self._queue.put(piece)
        await self._queue.put(None)


async def unframed(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the messages in the body of a stream, each of which is preceded by its length.

    :raises ConnectionCut: the last one is cut off.
    """
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
            yield bytes(buffer[4:end])
            del buffer[:end]
    if buffer:
        raise ConnectionCut("a message is cut off")

# SPDX-License-Identifier: Apache-2.0
"""ModelInfer and ModelStreamInfer. Runs in: the gRPC process.

Messages pass through unread: the worker of the model reads and writes them.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import grpc

from servekit_oip.grpc.http import ConnectionCut
from servekit_oip.grpc.protocol import INFER, STREAM
from servekit_oip.grpc.wire import MESSAGE, error_piece, model_of, response_piece

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from servekit_oip.grpc.http import FrontEndAnswer, HttpClient

__all__ = ["Inference", "code_of", "fail", "fields_of"]

MAX_BEGUN: Final = 64  #: requests of one stream that are answered at the same time
UNAVAILABLE: Final = "no front-end answers; the server restarts or shuts down"
#: metadata that is not passed on: it is about the connection, or about the message
DROPPED: Final = frozenset(
    [
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-request-timeout-ms",
    ]
)
#: gRPC's code for each HTTP status
CODES: Final = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    431: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


def code_of(status: int) -> grpc.StatusCode:
    """Return gRPC's code for an HTTP *status*."""
    other = grpc.StatusCode.INTERNAL if status >= 500 else grpc.StatusCode.INVALID_ARGUMENT
    return CODES.get(status, other)


async def fail(
    context: Any,
    response: FrontEndAnswer,
    text: str | None = None,
    code: grpc.StatusCode | None = None,
) -> None:
    """End a call with the error that *response* reports; raises.

    :param text: in place of the body.
    :param code: in place of that of the status.
    """
    names = ("X-Request-Id", "Retry-After")
    known = ((name.lower(), response.field(name)) for name in names)
    details = response.body.decode("utf-8", "replace") if text is None else text
    trailers = tuple((name, value) for name, value in known if value)
    await context.abort(code or code_of(response.status), details, trailers)


def fields_of(context: Any) -> bytes:
    """Return the header fields that say who asks, and until when: the metadata of the call."""
    found = []
    for name, value in context.invocation_metadata():
        is_text = isinstance(value, str) and not name.startswith(("grpc-", ":"))
        if is_text and name not in DROPPED and "\r" not in value and "\n" not in value:
            found.append(f"{name}: {value}\r\n")
    remaining_s = context.time_remaining()
    if remaining_s is not None:
        found.append(f"x-request-timeout-ms: {max(1, int(remaining_s * 1000))}\r\n")
    return "".join(found).encode("latin-1", "replace")


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

    async def infer(self, message: bytes, context: Any) -> bytes:
        """PendingAnswer ModelInfer."""
        try:
            response = await self._ask(INFER, message, fields_of(context))
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OSError:
            await context.abort(grpc.StatusCode.UNAVAILABLE, UNAVAILABLE)
        if response.status != 200:
            await fail(context, response)
        return response.body

    async def stream(self, messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """PendingAnswer ModelStreamInfer: several requests at a time, in their order."""
        answers: asyncio.Queue[PendingAnswer | None] = asyncio.Queue(MAX_BEGUN)
        begun: set[PendingAnswer] = set()
        reader = asyncio.create_task(self._begin_each(messages, context, answers, begun))
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
        context: Any,
        answers: asyncio.Queue[PendingAnswer | None],
        begun: set[PendingAnswer],
    ) -> None:
        try:
            async for message in messages:
                answer = PendingAnswer(self._pieces(message, fields_of(context)))
                begun.add(answer)
                await answers.put(answer)
        finally:
            if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                await answers.put(None)

    async def _pieces(self, message: bytes, fields: bytes) -> AsyncIterator[bytes]:
        """Yield the ModelStreamInferResponses that answer *message*; an error is one of them."""
        try:
            response = await self._ask(STREAM, message, fields)
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

    async def _ask(self, path: str, message: bytes, fields: bytes) -> FrontEndAnswer:
        """Return the response to an inference.

        :raises ValueError: *message* names no model.
        :raises OSError: no front-end answers.
        """
        model, version = model_of(message)
        if not model:
            raise ValueError("model_name: missing")
        start = start_of(path, model, version)
        return await self._http.ask(b"%b%d\r\n%b\r\n" % (start, len(message), fields), message)


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

# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 to one engine: connections that are used again, and bodies as they come.

A request goes out in one write, and a response is read piece by piece from asyncio's streams, so a
chunk costs microseconds. It runs on the event loop of the worker.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["EngineClient", "EngineResponse"]

MAX_HEAD: Final = 64 << 10  #: bytes of a head, or of a line between chunks
PIECE: Final = 64 << 10  #: bytes that are read at a time
MAX_IDLE: Final = 64  #: connections that are kept
END_OF_HEAD: Final = b"\r\n\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EngineResponse:
    """The head of a response, and its body while it arrives."""

    def __init__(
        self, status: int, headers: Mapping[str, str], reader: asyncio.StreamReader
    ) -> None:
        """Read the body from *reader*.

        :param headers: names in lower case.
        """
        self.status, self.headers = status, headers
        self._reader = reader
        self.is_complete = False  #: the body has been read to its end
        self.keeps_alive = headers.get("connection", "").lower() != "close"

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces, each as soon as it is there.

        :raises OSError, asyncio.IncompleteReadError: the connection is lost.
        :raises ValueError: it is not HTTP.
        """
        if self.status == 204:
            pass
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            while size := int((await self._line()).partition(b";")[0], 16):
                async for piece in self._exactly(size):
                    yield piece
                await self._line()
            while await self._line():
                pass
        elif (length := self.headers.get("content-length")) is not None:
            async for piece in self._exactly(int(length)):
                yield piece
        else:
            self.keeps_alive = False
            while piece := await self._reader.read(PIECE):
                yield piece
        self.is_complete = True

    async def _line(self) -> bytes:
        return (await self._reader.readuntil(b"\r\n"))[:-2].strip()

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            piece = await self._reader.read(min(size, PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            size -= len(piece)
            yield piece


class EngineClient:
    """One engine. A connection has one request at a time."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str], connect_s: float, silence_s: float
    ) -> None:
        """Connect to nothing yet.

        :param url: ``http://127.0.0.1:8000/v1``; paths of requests are appended.
        :param headers: sent with every request.
        :param silence_s: longest time without a byte of a response.
        :raises ValueError: *url* is not one of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is not a URL of HTTP")
        self._host, self._path = parts.hostname, parts.path.rstrip("/")
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._ssl else 80)
        self._fields = {"Host": parts.netloc.rpartition("@")[2], **headers}
        self._connect_s, self.silence_s = connect_s, silence_s
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[EngineResponse]:
        """Send a request; yield its response once the head is there.

        The connection is closed if the body has not been read to its end, which tells the engine
        that nobody waits.

        :raises OSError, TimeoutError, EOFError, ValueError: the engine is gone, or does not speak
            HTTP.
        """
        message = self._message(method, path, body, headers or {})
        connection, response = await self._exchange(message)
        try:
            yield response
        finally:
            if response.is_complete and response.keeps_alive and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection[1].close()

    async def _exchange(self, message: bytes) -> tuple[Connection, EngineResponse]:
        """Send *message*, on a new connection if the engine has closed the one that was idle."""
        while self._idle:
            connection = self._idle.pop()
            try:
                return connection, await self._send(connection, message)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if getattr(error, "partial", b""):
                    raise
        async with asyncio.timeout(self._connect_s):
            connection = await asyncio.open_connection(
                self._host, self._port, ssl=self._ssl, limit=MAX_HEAD
            )
        return connection, await self._send(connection, message)

    async def _send(self, connection: Connection, message: bytes) -> EngineResponse:
        reader, writer = connection
        try:
            writer.write(message)
            await writer.drain()
            async with asyncio.timeout(self.silence_s):
                status, headers = await read_head(reader)
        except BaseException:  # cancellation too
            writer.close()
            raise
        return EngineResponse(status, headers, reader)

    def _message(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        fields = {**self._fields, **headers, "Content-Length": str(len(body))}
        lines = [f"{method} {self._path}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop()[1].close()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Return the status and the headers of a response; interim ones are skipped.

    :raises ValueError: it is not HTTP.
    """
    status = 100
    while status < 200:
        try:
            head = (await reader.readuntil(END_OF_HEAD)).decode("latin-1")
        except asyncio.LimitOverrunError:
            raise ValueError("the head of a response is too large") from None
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"{first[:40]!r} is not a status line")
        status = int(rest[:3])
    pairs = (line.partition(":") for line in lines if line)
    return status, {name.strip().lower(): value.strip() for name, _, value in pairs}

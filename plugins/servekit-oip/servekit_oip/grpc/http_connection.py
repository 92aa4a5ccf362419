# SPDX-License-Identifier: Apache-2.0
"""One connection of HTTP/1.1 to a front-end. Runs in: the gRPC process.

Small on purpose: it speaks to one server, which writes its heads always in the same way.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["Connection", "ConnectionCut", "ConnectionStale", "FrontEndAnswer"]

CONTENT_LENGTH: Final = re.compile(rb"\r\nContent-Length: *(\d+)\r\n", re.I)
CHUNKED: Final = re.compile(rb"\r\nTransfer-Encoding: *chunked\r\n", re.I)
CLOSES: Final = re.compile(rb"\r\nConnection: *close\r\n", re.I)
END: Final = b"\r\n\r\n"
STATUS: Final = slice(9, 12)  #: in ``HTTP/1.1 200 OK``
MAX_WAITING: Final = 64  #: pieces of a stream that its reader has not taken; then it is not read on


class ConnectionCut(ConnectionError):
    """The front-end has closed the connection, perhaps after it has read the request."""


class ConnectionStale(ConnectionError):
    """The front-end has closed the connection before it has read the request."""


class FrontEndAnswer(NamedTuple):
    """One response; that of a stream has its body in ``pieces``."""

    status: int
    head: bytes  #: ends in an empty line
    body: bytes
    pieces: AsyncIterator[bytes] | None = None

    def field(self, name: str) -> str:
        """Return the header field *name*, or ""."""
        found = re.search(rb"\r\n%b: *([^\r]*)" % name.encode(), self.head, re.I)
        return found[1].decode("latin-1") if found else ""


class Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self, on_idle: Callable[[Connection], None]) -> None:
        """Tell *on_idle* when a stream has ended and the connection can be used again."""
        self._on_idle = on_idle
        self._on_answer: Callable[[FrontEndAnswer | ConnectionError], None] | None = None
        self._buffer = bytearray()
        self._pieces: StreamedBody | None = None
        self.is_open = False
        self.idle_since = 0.0

    async def ask(self, head: bytes, body: bytes) -> FrontEndAnswer:
        """Send a request and return its response.

        :raises ConnectionStale: the connection was closed before the request was read.
        :raises ConnectionCut: it was closed later.
        """
        future: asyncio.Future[FrontEndAnswer] = asyncio.get_running_loop().create_future()

        def on_answer(answer: FrontEndAnswer | ConnectionError) -> None:
            if future.done():
                return
            if isinstance(answer, ConnectionError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.begin(head, body, on_answer)
        return await future

    def begin(
        self,
        head: bytes,
        body: bytes,
        on_answer: Callable[[FrontEndAnswer | ConnectionError], None],
    ) -> None:
        """Send a request; *on_answer* gets the response, or why there is none."""
        self._on_answer = on_answer
        if not self.is_open:
            self._answered(ConnectionStale())
        elif len(body) < 65_536:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def _answered(self, answer: FrontEndAnswer | ConnectionError) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(answer)

    def abort(self) -> None:
        """Close at once; the server drops the request."""
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # ------------------------------------------------------------ callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the pending request. An error means that it was not delivered."""
        self.is_open = False
        if self._pieces is not None:
            self._pieces.fail()
        kind = ConnectionStale if error is not None and not self._buffer else ConnectionCut
        self._answered(kind("the front-end closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Take a part of a response."""
        if self._pieces is not None:
            self._take_chunks(data)
            return
        if self._buffer:
            self._buffer += data
            data = bytes(self._buffer) if self._has_all() else b""
        if data:
            self._take(data)

    def _has_all(self) -> bool:
        """Whether it is worth looking again: a large body arrives in many parts."""
        return len(self._buffer) >= self._wanted

    _wanted = 0  #: bytes that the response has at least

    def _take(self, data: bytes) -> None:
        end = data.find(END) + len(END)
        if end < len(END):
            self._wait(data, 0)
            return
        head = data[:end]
        if CHUNKED.search(head):
            self._begin_stream(head, data[end:])
            return
        length = CONTENT_LENGTH.search(head)
        size = end + (int(length[1]) if length else 0)
        if len(data) < size:
            self._wait(data, size)
            return
        self._finish(FrontEndAnswer(int(head[STATUS]), head, data[end:size]))

    def _wait(self, data: bytes, wanted: int) -> None:
        if not self._buffer:
            self._buffer += data
        self._wanted = wanted

    def _finish(self, response: FrontEndAnswer) -> None:
        self._buffer.clear()
        self._wanted = 0
        if CLOSES.search(response.head):
            self.abort()
        self._answered(response)

    # ------------------------------------------------------------ streams

    def _begin_stream(self, head: bytes, rest: bytes) -> None:
        self._buffer.clear()
        self._wanted = 0
        self._pieces = pieces = StreamedBody(self._transport, self.abort)
        self._closes = bool(CLOSES.search(head))
        self._answered(FrontEndAnswer(int(head[STATUS]), head, b"", pieces.read()))
        self._take_chunks(rest)

    def _take_chunks(self, data: bytes) -> None:
        """Take the whole chunks of what has arrived."""
        assert self._pieces is not None
        buffer, at = self._buffer, 0
        buffer += data
        while (line := buffer.find(b"\r\n", at)) >= 0:
            size = int(buffer[at:line].partition(b";")[0], 16)
            begin = line + 2
            if len(buffer) < begin + size + 2:
                break
            at = begin + size + 2
            if size == 0:
                self._end_stream()
                return
            self._pieces.add(bytes(buffer[begin : begin + size]))
        del buffer[:at]

    def _end_stream(self) -> None:
        pieces, self._pieces = self._pieces, None
        assert pieces is not None
        pieces.end()
        self._buffer.clear()
        if self._closes:
            self.abort()
        else:
            self._on_idle(self)


class StreamedBody:
    """The body of a stream, as it arrives; the connection is not read on while too much waits."""

    def __init__(self, transport: asyncio.Transport, abort: Callable[[], None]) -> None:
        """Begin with nothing.

        :param abort: closes the connection; called if the reader leaves before the end.
        """
        self._transport = transport
        self._abort = abort
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._is_paused = False
        self._is_over = False
        self._is_cut = False

    def add(self, piece: bytes) -> None:
        """Add a part of the body."""
        self._queue.put_nowait(piece)
        if not self._is_paused and self._queue.qsize() > MAX_WAITING:
            self._is_paused = True
            self._transport.pause_reading()

    def end(self) -> None:
        """Note that the body is whole."""
        self._is_over = True
        self._queue.put_nowait(None)
        self._go_on()

    def fail(self) -> None:
        """Note that the rest of the body will not come."""
        self._is_over = self._is_cut = True
        self._queue.put_nowait(None)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the body.

        :raises ConnectionCut: it is cut off.
        """
        try:
            while (piece := await self._queue.get()) is not None:
                if self._queue.qsize() < MAX_WAITING // 2:
                    self._go_on()
                yield piece
        finally:
            if not self._is_over:
                self._abort()
        if self._is_cut:
            raise ConnectionCut("the front-end closed the connection")

    def _go_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

# SPDX-License-Identifier: Apache-2.0
"""One call of gRPC: a stream of an HTTP/2 connection, with messages both ways."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.frames import END_HEADERS, END_STREAM, HEADERS, block_of, frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from servekit_oip.grpc.frames import RequestFields
    from servekit_oip.grpc.sending import GrpcSender

__all__ = ["GrpcCall"]

PREFIX: Final = 5  #: bytes before each message: whether it is compressed, and its length
CODINGS: Final = {b"gzip": 31, b"deflate": 15}  #: and their ``wbits`` of zlib
UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
#: ``:status: 200`` and ``content-type: application/grpc``
HEAD: Final = b"\x88" + block_of([(b"content-type", b"application/grpc")])
GOOD_END: Final = block_of([(b"grpc-status", b"0")])
SHOWN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")  #: in ``grpc-message``
MAX_OUTGOING: Final = 16  #: messages that wait for the client; then a stream is not read on
LOOK_S: Final = 0.01
MAX_TEXT: Final = 4096  #: characters of an error


class GrpcCall:
    """One call, from its header fields to its status."""

    __slots__ = (
        "_answered",
        "_buffer",
        "_coding",
        "_messages",
        "_sender",
        "_timer",
        "cancel",
        "deadline",
        "fields",
        "id",
        "is_over",
        "outgoing",
        "path",
        "received",
        "task",
        "window",
    )  # fmt: skip

    def __init__(
        self,
        sender: GrpcSender,
        id_: int,
        fields: RequestFields,
    ) -> None:
        """Be the stream *id_* of the connection of *sender*."""
        self._sender = sender
        self.id, self.fields = id_, fields
        self.window = sender.first_window  #: bytes that the client lets us send
        self.path, self._coding = fields.path, fields.coding
        timeout = fields.timeout
        self.deadline = monotonic() + seconds_of(timeout) if timeout else None
        self._buffer = bytearray()
        self.received: deque[bytes] = deque()  #: whole messages that nobody has taken
        self._messages: asyncio.Queue[bytes | None] | None = None  #: of a stream
        self.outgoing: deque[tuple[memoryview, bool]] = deque()  #: DATA that waits for room
        self._answered = False
        self.is_over = False
        self.cancel: Callable[[], object] | None = None  #: called if the client leaves
        self.task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ what handlers see

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline, or ``None``."""
        return None if self.deadline is None else self.deadline - monotonic()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the messages of the client, as they arrive."""
        assert self._messages is not None
        while (message := await self._messages.get()) is not None:
            self._sender.credit(self, len(message))
            yield message

    # ------------------------------------------------------------ what arrives

    def begin_stream(self) -> None:
        """Take messages one by one from now on."""
        self._messages = asyncio.Queue()

    @property
    def is_stream(self) -> bool:
        """Whether messages are taken one by one."""
        return self._messages is not None

    def start_clock(self) -> None:
        """Fail at the deadline."""
        if self.deadline is not None:
            delay_s = max(0.0, self.deadline - monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self.stop()
        self.fail(GrpcError(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))

    def take(self, data: bytes, limit: int) -> None:
        """Take a part of the messages.

        :param limit: of the size of a message, in bytes.
        :raises GrpcError: a message is too large, or compressed in an unknown way.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= PREFIX:
            size = int.from_bytes(buffer[1:PREFIX], "big")
            if size > limit:
                text = f"Received message larger than max ({size} vs. {limit})"
                raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
            if len(buffer) < PREFIX + size:
                return
            message = bytes(memoryview(buffer)[PREFIX : PREFIX + size])
            if buffer[0]:
                message = self._decompressed(message, limit)
            del buffer[: PREFIX + size]
            if self._messages is not None:
                self._messages.put_nowait(message)
            else:
                self.received.append(message)

    def take_end(self) -> None:
        """Note that no more messages come."""
        if self._messages is not None:
            self._messages.put_nowait(None)

    def _decompressed(self, content: bytes, limit: int) -> bytes:
        if self._coding not in CODINGS:
            text = f"grpc-encoding {self._coding.decode('latin-1')!r} is not supported"
            raise GrpcError(StatusCode.UNIMPLEMENTED, text)
        decompressor = zlib.decompressobj(CODINGS[self._coding])
        try:
            message = decompressor.decompress(content, limit + 1)
        except zlib.error:
            raise GrpcError(StatusCode.INTERNAL, "a message cannot be decompressed") from None
        if len(message) > limit:
            text = f"Decompressed message larger than max ({limit})"
            raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
        return message

    def stop(self) -> None:
        """Drop what has been begun for it."""
        cancel, self.cancel = self.cancel, None
        if cancel is not None:
            cancel()

    # ------------------------------------------------------------ what is sent

    def finish(self, message: bytes) -> None:
        """Send the only message, and the good status."""
        if self.is_over:
            return
        content = b"\0" + len(message).to_bytes(4, "big") + message
        last = frame(HEADERS, END_HEADERS | END_STREAM, self.id, GOOD_END)
        if self._sender.send_whole(self, frame(HEADERS, END_HEADERS, self.id, HEAD), content, last):
            self._note_end()
        else:
            self.send(message)
            self._end(GOOD_END)

    def end(self) -> None:
        """Send the good status."""
        self._end(GOOD_END)

    def fail(self, error: GrpcError) -> None:
        """Send the status of *error*."""
        text = quote(error.text[:MAX_TEXT], safe=SHOWN)
        fields = [(b"grpc-status", b"%d" % error.code), (b"grpc-message", text.encode())]
        fields += [(name.encode(), value.encode("latin-1")) for name, value in error.trailers]
        self._end(block_of(fields))

    def send(self, message: bytes) -> None:
        """Send *message*, when the client has room for it."""
        if self.is_over:
            return
        if not self._answered:
            self._answered = True
            self._sender.write(frame(HEADERS, END_HEADERS, self.id, HEAD))
        content = b"\0" + len(message).to_bytes(4, "big") + message
        self._sender.send_data(self, content)

    async def has_room(self) -> None:
        """Wait while the client does not take what has been sent."""
        while len(self.outgoing) > MAX_OUTGOING and not self.is_over:
            await asyncio.sleep(LOOK_S)

    def _end(self, block: bytes) -> None:
        if self.is_over:
            return
        self._note_end()
        if not self._answered:
            block = HEAD + block
        self._sender.end_call(self, frame(HEADERS, END_HEADERS | END_STREAM, self.id, block))

    def _note_end(self) -> None:
        self.is_over = True
        self.cancel = None
        if self._timer is not None:
            self._timer.cancel()

    def abandon(self) -> None:
        """End without a word: the client has left."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self.stop()
        self.outgoing.clear()


def seconds_of(timeout: bytes) -> float:
    """Return the seconds that *timeout* says, such as ``100m``; a bad one is over at once."""
    unit = UNITS.get(timeout[-1:])
    digits = timeout[:-1]
    return int(digits) * unit if unit and digits.isdigit() and len(digits) <= 8 else 0.0

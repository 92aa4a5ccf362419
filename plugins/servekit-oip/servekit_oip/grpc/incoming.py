# SPDX-License-Identifier: Apache-2.0
"""The messages of one call while they arrive: their limits, and where they are kept."""

from __future__ import annotations

import zlib
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from servekit.extension import HttpRequest
from servekit.frontend.transport import BodyClock, Upload
from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.frames import FIRST_WINDOW, WINDOW_UPDATE, ProtocolError, frame

if TYPE_CHECKING:
    from servekit_oip.grpc.call import GrpcCall
    from servekit_oip.grpc.streams import CallStreams

__all__ = ["PREFIX", "CallMessage", "IncomingMessages"]

PREFIX: Final = 5  #: bytes before each message: whether it is compressed, and its length
CODINGS: Final = {b"gzip": 31, b"deflate": 15}  #: and their ``wbits`` of zlib
MAX_WAITING: Final = 64  #: messages of a stream that its handler has not taken
FLOW_CONTROL: Final = 3
FULL: Final = "the queue is full: no memory is left for a message of this size"


class CallMessage(NamedTuple):
    """One message of a client."""

    body: HttpRequest | bytes  #: or a request whose body lies in the shared memory of its route
    granted: int = 0  #: bytes of the connection's budget that it has
    counted: int = 0  #: bytes of it in ``pressure.bodies``

    @property
    def content(self) -> bytes | memoryview:
        """The message, read-only; valid until it is passed on."""
        return self.body.content if isinstance(self.body, HttpRequest) else self.body

    def release(self, streams: CallStreams) -> None:
        """Count it no longer: its handler has it."""
        if self.granted:
            streams.budget.release(self.granted)
        streams.host.pressure.bodies -= self.counted

    def discard(self, streams: CallStreams) -> None:
        """Give all of its memory back: nobody will read it."""
        if isinstance(self.body, HttpRequest):
            self.body.discard()
        self.release(streams)


class IncomingMessages:
    """Collects the messages of one call, if they do not come in one frame."""

    __slots__ = (
        *("_buffer", "_call", "_clock", "_counted", "_granted", "_host", "_is_compressed"),
        *("_prefix", "_received", "_room", "_upload", "missing"),
    )

    def __init__(self, call: GrpcCall) -> None:
        """Begin with nothing."""
        self._call, self._host = call, call.streams.host
        self._room = FIRST_WINDOW  #: bytes that we let the client send
        self._granted = 0  #: bytes of the connection's budget
        self._prefix, self._buffer = b"", bytearray()
        self._is_compressed = False
        self.missing = 0  #: bytes of the message that are still to come
        self._received, self._counted = 0, 0
        self._clock = BodyClock(self._host.settings, monotonic())
        self._upload: tuple[HttpRequest, Upload] | None = None

    @property
    def is_midway(self) -> bool:
        """Whether a message, or the prefix of one, has begun."""
        return bool(self._prefix)

    @property
    def waits_for_room(self) -> bool:
        """Whether a large message waits for shared memory."""
        return self._upload is not None and self._upload[1].is_waiting

    def take(self, content: bytes, size: int) -> bool:
        """Take a part of the messages; return whether one is whole now.

        :param size: bytes that flow control counts for it.
        :raises GrpcError: a message is too large, or compressed in an unknown way.
        :raises ProtocolError: the client sends more than it may.
        """
        self._room -= size
        if self._room < 0:
            raise ProtocolError(FLOW_CONTROL, "more data than the window of a stream allows")
        is_any_whole = False
        self._received += len(content)
        while content:
            if self.missing:
                piece, content = content[: self.missing], content[self.missing :]
                self._add(piece)
            else:
                content = self._take_prefix(content)
                if len(self._prefix) < PREFIX:
                    break
            if not self.missing:
                body = self._end()
                granted, self._granted = self._granted, 0
                counted, self._counted = self._counted, 0
                self._call.note(CallMessage(body, granted, counted))
                is_any_whole = True
        return is_any_whole

    def widen(self) -> None:
        """Let the client send the rest of a message, or the next one."""
        if self._call.is_over or self.waits_for_room:
            return
        if self.missing > self._room:
            more = self.missing - self._room
            if self._upload is None:
                if not self._call.streams.budget.grant(self._call, more):
                    return
                self._granted += more
            self._credit(more)
        elif (
            not self.missing
            and self._room < FIRST_WINDOW // 2
            and self._call.waiting <= MAX_WAITING
        ):
            self._credit(FIRST_WINDOW - self._room)
            self._restart()

    def _restart(self) -> None:
        self._clock, self._received = BodyClock(self._host.settings, monotonic()), 0

    def _credit(self, more: int) -> None:
        self._room += more
        update = frame(WINDOW_UPDATE, 0, self._call.id, more.to_bytes(4))
        self._call.streams.sender.write(update)

    def _take_prefix(self, content: bytes) -> bytes:
        """Take the bytes before a message; return the rest of *content*."""
        if not self._prefix:
            self._restart()
        wanted = PREFIX - len(self._prefix)
        self._prefix, content = self._prefix + content[:wanted], content[wanted:]
        if len(self._prefix) < PREFIX:
            return b""
        size, limit = int.from_bytes(self._prefix[1:]), self._host.settings.max_body
        if size > limit:
            text = f"Received message larger than max ({size} vs. {limit})"
            raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
        self._is_compressed = bool(self._prefix[0])
        self._received = len(content)
        self.missing = size
        if size >= self._host.settings.large_body:
            self._make_room(size, content)
        return content

    def _make_room(self, size: int, begun: bytes) -> None:
        """Continue a large message in the shared memory of its model.

        :raises GrpcError: too little memory is left for it.
        """
        request = None if self._is_compressed else self._find(begun[:size])
        if request is not None and request.route.bodies.fits(size):
            upload = Upload(request.route, b"", size, size)
            upload.on_room, upload.shed = self._on_room, self._on_shed
            self._upload = request, upload
        else:
            self._count(size)

    def _count(self, size: int) -> None:
        """Count *size* bytes of the message as held for the client.

        :raises GrpcError: there is not enough memory for them.
        """
        if not self._host.pressure.has_room(size):
            raise GrpcError(StatusCode.UNAVAILABLE, FULL)
        self._counted += size
        self._host.pressure.bodies += size

    def _find(self, begun: bytes) -> HttpRequest | None:
        find = self._call.find_route
        return None if find is None else find(begun, self._call)

    def _on_room(self) -> None:
        self._restart()  # the wait was not the client's
        self.widen()

    def _on_shed(self) -> None:
        self._call.give_up("the message arrives too slowly, and others need its memory")

    def _add(self, piece: bytes) -> None:
        self.missing -= len(piece)
        if self._upload is not None:
            self._upload[1].take(piece)
        else:
            more = len(self._buffer) + len(piece) - self._counted
            if more > 0:  # a large message has been counted as a whole
                self._count(more)
            self._buffer += piece

    def _end(self) -> HttpRequest | bytes:
        """Return the message, which is whole."""
        self._prefix = b""
        if self._upload is not None:
            (request, upload), self._upload = self._upload, None
            request.body = upload.finish()
            return request
        message = bytes(self._buffer)
        self._buffer.clear()
        return self._decompressed(message) if self._is_compressed else message

    def _decompressed(self, content: bytes) -> bytes:
        coding = self._call.fields.coding
        if coding not in CODINGS:
            text = f"grpc-encoding {coding.decode('latin-1')!r} is not supported"
            raise GrpcError(StatusCode.UNIMPLEMENTED, text)
        limit = self._host.settings.max_body
        decompressor = zlib.decompressobj(CODINGS[coding])
        try:
            message = decompressor.decompress(content, limit + 1)
        except zlib.error:
            raise GrpcError(StatusCode.INTERNAL, "a message cannot be decompressed") from None
        if len(message) > limit:
            text = f"Decompressed message larger than max ({limit})"
            raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
        return message

    def _count_no_more(self) -> None:
        self._host.pressure.bodies -= self._counted
        self._counted = 0

    def is_late(self, now: float) -> bool:
        """Whether the client is too slow, or there has been no room for too long."""
        is_full = not self.missing and self._room <= 0
        if is_full or self._call.streams.budget.has_waiting(self._call):
            return False  # it is not the client that has to do something
        return self._clock.expires(now, self._received) <= now

    def abandon(self) -> None:
        """Free the memory of a message that is not whole."""
        self._buffer.clear()
        self._count_no_more()
        if self._upload is not None:
            (_, upload), self._upload = self._upload, None
            upload.abandon()
        granted, self._granted = self._granted, 0
        if granted:
            self._call.streams.budget.release(granted)

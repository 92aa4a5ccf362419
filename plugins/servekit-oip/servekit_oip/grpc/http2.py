# SPDX-License-Identifier: Apache-2.0
"""The HTTP/2 of a gRPC server (RFC 9113): its connections, and the streams that are calls.

It does what gRPC needs and no more: no priorities, no push, no tables for fields that are sent.
Runs in: the gRPC process, as callbacks of asyncio.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from servekit_oip.grpc import frames
from servekit_oip.grpc.call import GrpcCall
from servekit_oip.grpc.codes import GrpcError
from servekit_oip.grpc.frames import DATA, BlockDecoder, ProtocolError, frame, unpadded
from servekit_oip.grpc.limits import notice_lost_peers
from servekit_oip.grpc.sending import FIRST_WINDOW, GrpcSender

if TYPE_CHECKING:
    from servekit_oip.grpc.frames import ReceivedFrame
    from servekit_oip.grpc.limits import ServiceLimits

__all__ = ["GrpcConnection"]

MAX_CALLS: Final = 1024  #: calls on one connection at the same time
MAX_CONTENT: Final = 65_536  #: bytes of a frame that we take
WINDOW: Final = 4 * 2**20  #: bytes that a client may send before we have read them
LARGEST: Final = 2**31 - 1
SPARE_RESETS: Final = 200  #: calls that a client may reset, besides one for each that is answered
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL, STREAM_CLOSED, REFUSED, CALM = 0, 1, 3, 5, 7, 11
TABLE_SIZE, ENABLE_PUSH, CALLS, INITIAL_WINDOW, FRAME_SIZE, LIST_SIZE = range(1, 7)
GREETING: Final = (CALLS, MAX_CALLS), (INITIAL_WINDOW, WINDOW), (FRAME_SIZE, MAX_CONTENT)


class GrpcConnection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, limits: ServiceLimits) -> None:
        """Wait for the preface."""
        self._limits = limits
        self._decoder = BlockDecoder(limits.max_header)
        self._buffer = bytearray()
        self._block: tuple[ReceivedFrame, bytearray] | None = None  #: incomplete header fields
        self._calls: dict[int, GrpcCall] = {}
        self._last = 0  #: the newest stream
        self._credit = 0  #: bytes that have arrived and may be sent again
        self._has_preface = self._is_leaving = self._is_closed = False
        self._resets = SPARE_RESETS

    # ------------------------------------------------------------ callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send our settings."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._limits.connections.add(self)
        notice_lost_peers(transport.get_extra_info("socket"), self._limits.send_timeout_s)
        loop, timeout_s = asyncio.get_running_loop(), self._limits.send_timeout_s
        self._clock = loop.call_later(self._limits.header_timeout_s, self._close)
        self._sender = GrpcSender(
            self._transport, self._calls, timeout_s, self._forget, lambda: self._fail(CALM)
        )
        settings = (*GREETING, (LIST_SIZE, self._limits.max_header))
        content = b"".join(name.to_bytes(2) + value.to_bytes(4) for name, value in settings)
        self._sender.write(frame(frames.SETTINGS, 0, 0, content))
        self._sender.write(
            frame(frames.WINDOW_UPDATE, 0, 0, (WINDOW * 4 - FIRST_WINDOW).to_bytes(4))
        )

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Drop all calls."""
        self._is_closed = True
        self._clock.cancel()
        self._sender.close()
        self._limits.connections.discard(self)
        for call in list(self._calls.values()):
            call.abandon()
        self._calls.clear()

    def pause_writing(self) -> None:
        """Read nothing more from a client that does not read."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Handle the frames that are whole."""
        buffer = self._buffer
        buffer += data
        try:
            if not self._has_preface and not self._take_preface():
                return
            found, size = frames.frames_of(buffer, MAX_CONTENT)
            del buffer[:size]
            for each in found:
                self._take(each)
                if self._is_closed:
                    return
        except ProtocolError as error:
            self._fail(error.code)

    def _take_preface(self) -> bool:
        preface = frames.PREFACE
        if not preface.startswith(self._buffer[: len(preface)]):
            raise ProtocolError(PROTOCOL_ERROR, "not HTTP/2")
        if len(self._buffer) < len(preface):
            return False
        del self._buffer[: len(preface)]
        self._has_preface = True
        self._clock.cancel()
        return True

    # ------------------------------------------------------------ frames

    def _take(self, received: ReceivedFrame) -> None:
        kind = received.kind
        if self._block is not None and kind != frames.CONTINUATION:
            raise ProtocolError(PROTOCOL_ERROR, "a header block is interrupted")
        if kind == DATA:
            self._take_data(received)
        elif kind == frames.HEADERS:
            self._take_headers(received)
        elif kind == frames.CONTINUATION:
            self._continue(received)
        elif kind == frames.WINDOW_UPDATE:
            self._take_window(received)
        elif kind == frames.RST_STREAM:
            self._take_reset(received.stream)
        elif kind == frames.SETTINGS:
            self._take_settings(received)
        elif kind == frames.PING and not received.flags & 1:
            self._sender.write(frame(frames.PING, 1, 0, received.content[:8]))
        elif kind == frames.GOAWAY:
            self._is_leaving = True
            self._close_if_idle()

    def _take_headers(self, received: ReceivedFrame) -> None:
        block = unpadded(received)
        if received.flags & frames.END_HEADERS:
            self._begin(received, block)
        else:
            self._block = received, bytearray(block)

    def _continue(self, received: ReceivedFrame) -> None:
        if self._block is None or self._block[0].stream != received.stream:
            raise ProtocolError(PROTOCOL_ERROR, "a header block is continued that has not begun")
        first, block = self._block
        block += received.content
        if len(block) > self._limits.max_header:
            raise ProtocolError(CALM, "a header block is too large")
        if received.flags & frames.END_HEADERS:
            self._block = None
            self._begin(first, bytes(block))

    def _begin(self, received: ReceivedFrame, block: bytes) -> None:
        """Begin a call; fields at its end are trailers, which say nothing to a gRPC server."""
        fields, id_ = self._decoder.decode(block), received.stream
        if id_ in self._calls:
            self._end_if_last(self._calls[id_], received)
            return
        if not id_ & 1 or id_ <= self._last:
            raise ProtocolError(STREAM_CLOSED, "a stream is used again")
        self._last = id_
        if len(self._calls) >= MAX_CALLS or self._is_leaving:
            self._sender.write(frame(frames.RST_STREAM, 0, id_, REFUSED.to_bytes(4)))
            return
        call = self._calls[id_] = GrpcCall(self._sender, id_, fields)
        self._limits.begin(call)
        self._end_if_last(call, received)

    def _take_data(self, received: ReceivedFrame) -> None:
        size = len(received.content)
        self._credit += size
        if self._credit > WINDOW:
            self._sender.write(frame(frames.WINDOW_UPDATE, 0, 0, self._credit.to_bytes(4)))
            self._credit = 0
        call = self._calls.get(received.stream)
        if call is None:
            if not 0 < received.stream <= self._last:
                raise ProtocolError(PROTOCOL_ERROR, "data of a stream that has not begun")
            return
        try:
            call.take(unpadded(received), self._limits.max_message)
        except GrpcError as error:
            call.stop()
            call.fail(error)
            return
        if received.flags & frames.END_STREAM:
            self._end_if_last(call, received)
        elif not call.is_stream:
            self._sender.credit(call, size)

    def _end_if_last(self, call: GrpcCall, received: ReceivedFrame) -> None:
        if not received.flags & frames.END_STREAM or call.is_over:
            return
        call.take_end()
        if not call.is_stream:
            self._limits.answer(call)

    def _take_reset(self, id_: int) -> None:
        call = self._calls.pop(id_, None)
        if call is not None:
            call.abandon()
            self._resets -= 1
            if self._resets < 0:
                raise ProtocolError(CALM, "too many calls are reset")
        self._close_if_idle()

    def _take_settings(self, received: ReceivedFrame) -> None:
        if received.flags & 1:
            return
        content = received.content
        if len(content) % 6:
            raise ProtocolError(6, "settings are cut off")
        for at in range(0, len(content), 6):
            name, value = (
                int.from_bytes(content[at : at + 2]),
                int.from_bytes(content[at + 2 : at + 6]),
            )
            if name == INITIAL_WINDOW:
                if value > LARGEST:
                    raise ProtocolError(FLOW_CONTROL, "the window is too large")
                for call in self._calls.values():
                    call.window += value - self._sender.first_window
                self._sender.first_window = value
            elif name == FRAME_SIZE and 16_384 <= value < 2**24:
                self._sender.max_frame = value
        self._sender.write(frame(frames.SETTINGS, 1, 0))
        self._sender.send_waiting()

    def _take_window(self, received: ReceivedFrame) -> None:
        count = int.from_bytes(received.content[:4]) & LARGEST
        if not received.stream:
            self._sender.window += count
            if not count or self._sender.window > LARGEST:
                raise ProtocolError(FLOW_CONTROL, "the window is too large")
        elif call := self._calls.get(received.stream):
            call.window += count
        self._sender.send_waiting()

    # ------------------------------------------------------------ the end

    def _forget(self, call: GrpcCall) -> None:
        self._resets = min(SPARE_RESETS, self._resets + 1)
        if self._calls.pop(call.id, None) is not None:
            self._close_if_idle()

    def leave(self) -> None:
        """Take no more calls, and close when all are answered."""
        if not self._is_leaving:
            self._is_leaving = True
            self._sender.write(self._goodbye(NO_ERROR))
            self._close_if_idle()

    def _goodbye(self, code: int) -> bytes:
        return frame(frames.GOAWAY, 0, 0, self._last.to_bytes(4) + code.to_bytes(4))

    def _fail(self, code: int) -> None:
        self._sender.write(self._goodbye(code))
        self._close()

    def _close_if_idle(self) -> None:
        if self._is_leaving and not self._calls:
            self._close()

    def _close(self) -> None:
        if not self._is_closed:
            self._sender.flush()
            self._is_closed = True
            self._transport.close()

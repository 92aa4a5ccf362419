# SPDX-License-Identifier: Apache-2.0
"""Frames over AF_UNIX stream sockets: ``u32`` little-endian size, then one msgpack message.

A frame is written with one system call and read with one where the kernel allows it.
Both ends close the channel at an undecodable or oversized frame; it is never used again.
"""

import array
import mmap
import os
import socket
import struct
from typing import Any, Generic, TypeVar

import msgspec

__all__ = [
    "MAX_FRAME_BYTES",
    "ChannelClosed",
    "FrameReader",
    "FrameTooLarge",
    "encode_frame",
    "send_first",
]

HEADER = struct.Struct("<I")
MAX_FRAME_BYTES = 1 << 30
READ_BYTES = 1 << 18

MAX_DESCRIPTORS = 3
DESCRIPTOR_SPACE = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)

Message = TypeVar("Message")
_encoder = msgspec.msgpack.Encoder()


class ChannelClosed(ConnectionError):
    """The peer closed the channel, or sent a malformed frame."""


class FrameTooLarge(ValueError):
    """A frame is over ``MAX_FRAME_BYTES``."""


def encode_frame(message: msgspec.Struct, buffer: bytearray | None = None) -> bytearray:
    """Return *message* as one frame, written over *buffer* if given.

    :raises FrameTooLarge: nothing was sent, so the channel stays usable.
    """
    frame = bytearray() if buffer is None else buffer
    _encoder.encode_into(message, frame, HEADER.size)
    size = len(frame) - HEADER.size
    if size > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"frame: {size} bytes, limit {MAX_FRAME_BYTES}")
    HEADER.pack_into(frame, 0, size)
    return frame


def send_first(sock: socket.socket, message: msgspec.Struct, *descriptors: int) -> None:
    """Send *message* as the first frame of a channel, and *descriptors* with it.

    :raises OSError: the peer is gone; a fresh channel has room for one small frame.
    """
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    sock.sendmsg([encode_frame(message)], [rights])


class FrameReader(Generic[Message]):
    """Reads the frames of one socket, blocking or not."""

    def __init__(self, sock: socket.socket, messages: Any) -> None:
        """Expect only the message types of the union *messages*."""
        self._socket = sock
        self._receive = sock.recv_into
        self._decode = msgspec.msgpack.Decoder(messages).decode
        self._usual = memoryview(mmap.mmap(-1, READ_BYTES))  # allocated on use
        self._view = self._usual
        self._filled = 0

    def read_first(self, expected: int, most: int = 0) -> tuple[list[Message], list[int]]:
        """Receive once, and with the first byte the descriptors from the peer.

        :return: the messages completed by it, and the descriptors, *expected* or up to *most*, now
            ours.
        :raises ChannelClosed: end of file, or the number of descriptors is wrong.
        """
        view = self._view[self._filled :]
        flags = socket.MSG_CMSG_CLOEXEC
        count, ancillary, _, _ = self._socket.recvmsg_into([view], DESCRIPTOR_SPACE, flags)
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(data)
        if not expected <= len(descriptors) <= max(expected, most):
            for descriptor in descriptors:
                os.close(descriptor)
            raise ChannelClosed("wrong number of descriptors from the peer")
        self._filled += count
        return self._take_frames(), list(descriptors)

    def read(self) -> list[Message]:
        """Receive once and return the messages completed by it: none, one or several.

        :raises ChannelClosed: end of file, or the peer broke the format.
        :raises BlockingIOError: the socket does not block and has nothing.
        """
        view, filled = self._view, self._filled
        count = self._receive(view[filled:] if filled else view)
        if not count:
            raise ChannelClosed("the peer closed the channel")
        if count > HEADER.size and not filled and view is self._usual:
            (size,) = HEADER.unpack_from(view)
            if HEADER.size + size == count:  # one whole frame, as almost always
                return [self._decoded(view[HEADER.size : count])]
        self._filled += count
        return self._take_frames()

    def _take_frames(self) -> list[Message]:
        view, filled, start = self._view, self._filled, 0
        messages: list[Message] = []
        while filled - start >= HEADER.size:
            (size,) = HEADER.unpack_from(view, start)
            end = start + HEADER.size + size
            if end > filled:
                self._make_room(start, size)
                return messages
            messages.append(self._decoded(view[start + HEADER.size : end]))
            start = end
        self._make_room(start, 0)
        return messages

    def _decoded(self, payload: memoryview) -> Message:
        try:
            message: Message = self._decode(payload)
        except (ValueError, RecursionError, MemoryError) as error:
            raise ChannelClosed(f"malformed message from the peer: {error}") from error
        return message

    def _make_room(self, start: int, size: int) -> None:
        """Move the bytes from *start* to the front of a buffer with room for a frame of *size*.

        A full buffer doubles: it grows with the bytes received, not with the size announced, and
        each byte of a large frame is moved a bounded number of times.
        """
        if size > MAX_FRAME_BYTES:
            raise ChannelClosed(f"the peer announced {size} bytes, limit {MAX_FRAME_BYTES}")
        rest, view = self._filled - start, self._view
        wanted = HEADER.size + size
        if wanted <= READ_BYTES:
            view = self._usual
        elif rest == len(view):
            view = memoryview(bytearray(min(wanted, 2 * rest)))
        if view is not self._view:
            view[:rest] = self._view[start : self._filled]
            self._view = view
        elif start and rest:
            view[:rest] = bytes(view[start : self._filled])
        self._filled = rest

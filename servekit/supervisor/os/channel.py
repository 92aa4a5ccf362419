# SPDX-License-Identifier: Apache-2.0
"""A connection that carries framed messages; neither reading nor sending blocks the loop."""

import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.supervisor.os.loop import READ, WRITE, Loop

__all__ = ["ControlChannel", "Message"]

Message = TypeVar("Message")


class ControlChannel(Generic[Message]):
    """Owns a connected socket."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        messages: Any,
        on_message: Callable[[Message], object],
        on_close: Callable[[], object],
    ) -> None:
        """Expect the message types of the union *messages*; *on_close* is called at most once."""
        sock.setblocking(False)
        self._loop = loop
        self._socket = sock
        self._reader: FrameReader[Message] = FrameReader(sock, messages)
        self._on_message = on_message
        self._on_close = on_close
        self._sending = memoryview(b"")
        self._queue: deque[bytearray] = deque()
        self._is_waiting = False
        self._is_closed = False
        loop.watch(sock.fileno(), self._on_events)

    @property
    def has_queued(self) -> bool:
        """Whether there are messages of which nothing has been sent."""
        return bool(self._queue)

    def send(self, message: msgspec.Struct, *, replaces: bool = False) -> None:
        """Send *message* as soon as the peer takes it.

        :param replaces: drop the queued messages that have not been sent in part.
        """
        if self._is_closed:
            return
        if replaces:
            self._queue.clear()
        self._queue.append(encode_frame(message))
        self._flush()

    def read(self) -> None:
        """Handle the messages that have arrived."""
        while not self._is_closed:
            try:
                messages = self._reader.read()
            except BlockingIOError:
                return
            except (ChannelClosed, OSError):
                self._lose()
                return
            for message in messages:
                self._on_message(message)

    def close(self) -> None:
        """Close without calling *on_close*."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()

    def _on_events(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if events & READ:
            self.read()

    def _flush(self) -> None:
        try:
            while self._sending or self._queue:
                if not self._sending:
                    self._sending = memoryview(self._queue.popleft())
                self._sending = self._sending[self._socket.send(self._sending) :]
        except BlockingIOError:
            self._await_room(True)
        except OSError:
            self._lose()
        else:
            self._await_room(False)

    def _await_room(self, is_waiting: bool) -> None:
        if is_waiting != self._is_waiting:
            self._is_waiting = is_waiting
            events = READ | WRITE if is_waiting else READ
            self._loop.watch(self._socket.fileno(), self._on_events, events)

    def _lose(self) -> None:
        if not self._is_closed:
            self.close()
            self._on_close()

# SPDX-License-Identifier: Apache-2.0
"""The front-end's end of the socket on which one worker calls other models. It never blocks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from servekit.ipc.calls import CallAnswer, CallRequest, CancelCall, ModelCall
from servekit.ipc.channel import ChannelClosed, FrameReader, FrameTooLarge, encode_frame

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.ipc.table import ModelRow

__all__ = ["BeginCall", "BegunCall", "CallPort"]

READ, WRITE = 1, 2
TOO_LARGE = "the output is too large"


class BegunCall(Protocol):
    """A call that has begun."""

    @property
    def is_over(self) -> bool:
        """Whether it has been answered or dropped."""

    def cancel(self) -> None:
        """Drop it: nobody waits for its answer any more."""


class BeginCall(Protocol):
    """Starts the prediction of a call."""

    def __call__(
        self, caller: ModelRow, call: ModelCall, answer: Callable[[CallAnswer], None], /
    ) -> BegunCall:
        """Begin *call* of a worker of *caller*; *answer* gets its outcome once, maybe at once."""


class CallPort:
    """Belongs to one channel, and is closed with it."""

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        begin: Callable[[ModelCall, Callable[[CallAnswer], None]], BegunCall],
    ) -> None:
        """Call *begin* for what the worker asks for on *sock*."""
        sock.setblocking(False)
        self._socket = sock
        self._begin = begin
        self._reader: FrameReader[CallRequest] = FrameReader(sock, CallRequest)
        self._open: dict[int, BegunCall] = {}
        self._waiting: deque[memoryview] = deque()  #: answers that have not been sent whole
        self._is_closed = False
        self._readable = loop.io(sock.fileno(), READ)
        self._readable.start(self._on_readable)
        self._writable = loop.io(sock.fileno(), WRITE)

    def close(self) -> None:
        """Drop all calls: the worker is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        for watcher in (self._readable, self._writable):
            watcher.stop()
            watcher.close()
        self._socket.close()
        calls, self._open = self._open, {}
        for call in calls.values():
            call.cancel()

    def _on_readable(self) -> None:
        try:
            for message in self._reader.read():
                self._take(message)
        except BlockingIOError:
            return
        except (ChannelClosed, OSError):
            self.close()

    def _take(self, message: CallRequest) -> None:
        if isinstance(message, CancelCall):
            if (call := self._open.pop(message.number, None)) is not None:
                call.cancel()
        elif not self._is_closed:
            self._open[message.number] = begun = self._begin(message, self._answer)
            if begun.is_over:  # refused at once
                del self._open[message.number]

    def _answer(self, answer: CallAnswer) -> None:
        self._open.pop(answer.number, None)
        if self._is_closed:
            return
        try:
            frame = encode_frame(answer)
        except FrameTooLarge:
            frame = encode_frame(CallAnswer(answer.number, 500, detail=TOO_LARGE))
        self._waiting.append(memoryview(frame))
        if len(self._waiting) == 1:
            self._on_writable()

    def _on_writable(self) -> None:
        try:
            while self._waiting:
                sent = self._socket.send(self._waiting[0])
                rest = self._waiting.popleft()[sent:]
                if rest:
                    self._waiting.appendleft(rest)
        except BlockingIOError:
            self._writable.start(self._on_writable)
        except OSError:
            self.close()
        else:
            self._writable.stop()

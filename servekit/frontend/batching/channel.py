# SPDX-License-Identifier: Apache-2.0
"""The front-end's end of a channel: frames to and from one worker. It never blocks."""

from __future__ import annotations

import os
import socket
import stat
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

from gevent.monkey import get_original

from servekit.ipc.arena_reader import ArenaReader
from servekit.ipc.batches import Predict, ReplyMessage, Slab, Welcome
from servekit.ipc.busy_times import OTHERS_S
from servekit.ipc.cancellation import Cancelled
from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame, send_first
from servekit.ipc.metric_memory import SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from servekit.frontend.exchange.event_loop import EventLoop, Watcher
    from servekit.ipc.arena import Arena

__all__ = ["WAKE_S", "BusyLoop", "Channel"]

READ, WRITE = 1, 2
WAKE_S: Final = 8e-6  #: to send to a worker that has to be woken takes longer, else about 4 µs


class BusyLoop:
    """Keeps the event loop awake until a quick worker answers, for *busy_poll_s* at most.

    It is left to sleep if the worker slept, too, and as soon as another process wants the core.
    """

    __slots__ = ("_is_busy", "_is_quick", "_longest_s", "_loop", "_sent_at", "_until", "_watcher")

    def __init__(self, loop: EventLoop, busy_poll_s: float) -> None:
        """Let *loop* sleep until the worker has been quick once.

        :param busy_poll_s: seconds that a wait stays awake before it sleeps; 0 sleeps at once.
        """
        self._loop, self._longest_s = loop, busy_poll_s
        self._watcher: Watcher | None = None
        self._is_busy = False
        self._is_quick = False  #: the last batch was answered so quickly
        self._sent_at = self._until = 0.0  #: ``monotonic``

    def sent(self, before: float) -> None:
        """Stay awake from now on, if the worker is quick: a batch has been sent.

        :param before: ``monotonic``: when the sending began.
        """
        self._sent_at = before
        if not self._is_quick or (now := monotonic()) - before > WAKE_S:
            return
        self._until = now + self._longest_s
        if not self._is_busy:
            self._is_busy = True
            if self._watcher is None:
                self._watcher = self._loop.idle()
            self._watcher.start(self._turn)

    def answered(self) -> None:
        """Sleep from now on: an answer has come."""
        self._until = 0.0
        self._is_quick = monotonic() - self._sent_at < self._longest_s

    def _turn(self) -> None:
        """Let other processes have the core, in each turn of the loop in which nothing arrives."""
        before = monotonic()
        os.sched_yield()
        now = monotonic()
        if self._watcher is not None and (now > self._until or now - before > OTHERS_S):
            self._watcher.stop()
            self._is_busy = False

    def close(self) -> None:
        """Sleep for ever."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
            self._watcher = None


class Channel:
    """Open from its creation until ``close``, which it calls itself when the worker ends."""

    __slots__ = (
        *("_answers", "_buffer", "_busy_loop", "_mapped", "_on_lost", "_readable", "_reader"),
        *("_rest", "_socket", "_waiting", "_writable"),
        *("call_socket", "cancelled", "is_open", "metric_memory", "on_message"),
    )

    def __init__(
        self,
        loop: EventLoop,
        address: str,
        bodies: Arena,
        places: int,
        on_message: Callable[[ReplyMessage], None],
        on_lost: Callable[[], None],
        *,
        busy_poll_s: float = 0.0,
        is_sampling: bool = False,
    ) -> None:
        """Connect to the listener at *address* and hand over the arena *bodies*.

        As much of the worker's arena stays mapped as *bodies* is large.

        :param places: in the longest batch, or slots of the worker.
        :param on_lost: called once, when the worker ends or breaks the protocol.
        :param busy_poll_s: as in ``BusyLoop``.
        :param is_sampling: requests may be sampled, and the worker is to record their spans.
        :raises OSError: the listener's backlog is full.
        """
        sock = get_original("socket", "socket")(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(address)
            self.cancelled = Cancelled(places)
            with self.cancelled.descriptor() as cancelled:
                send_first(sock, Welcome(is_sampling), bodies.descriptor, cancelled)
        except OSError:
            sock.close()
            raise
        self._socket, self._mapped, self.is_open = sock, bodies.size, True
        self.on_message, self._on_lost = on_message, on_lost  #: replaced after the greeting
        self._reader: FrameReader[ReplyMessage] = FrameReader(sock, ReplyMessage)
        self._answers: ArenaReader | None = None
        self.metric_memory: memoryview | None = None  #: the metrics of the service, if it has any
        self.call_socket: socket.socket | None = None  #: until a ``CallPort`` has it
        self._buffer = bytearray()
        self._rest: memoryview | None = None
        self._waiting: deque[bytearray] = deque()
        self._busy_loop = BusyLoop(loop, busy_poll_s)
        self._readable = loop.io(sock.fileno(), READ)
        self._readable.start(self._on_readable)
        self._writable = loop.io(sock.fileno(), WRITE)

    @property
    def is_writing(self) -> bool:
        """A frame has been sent in part: the buffer is not free for the next one."""
        return self._rest is not None

    def send(self, message: msgspec.Struct) -> None:
        """Send *message*, after those that have not been sent whole.

        :raises FrameTooLarge: nothing was sent.
        """
        if self._rest is not None:
            self._waiting.append(encode_frame(message))
            return
        frame = encode_frame(message, self._buffer)
        before = monotonic()
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._lose()
            return
        if sent < len(frame):
            self._rest = memoryview(frame)[sent:]
            self._writable.start(self._on_writable)
        elif type(message) is Predict:  # its answer is all that comes next
            self._busy_loop.sent(before)

    def view(self, slab: Slab) -> memoryview:
        """Return the bytes of an answer.

        :raises ChannelClosed: it lies outside the worker's arena.
        """
        if self._answers is None:
            raise ChannelClosed("the worker sent no arena")
        return self._answers.view(slab)

    def trim(self) -> None:
        """Unmap the answers that were read; those that are still needed are mapped again."""
        if self._answers is not None:
            self._answers.trim()

    def close(self) -> None:
        """Close the channel; ``on_lost`` is not called."""
        if not self.is_open:
            return
        self.is_open = False
        for watcher in (self._readable, self._writable):
            watcher.stop()
            watcher.close()
        self._busy_loop.close()
        self._socket.close()
        if self.call_socket is not None:
            self.call_socket.close()
        if self._answers is not None:
            self._answers.close()
        self._rest = None
        del self.on_message  # a method of an object that refers to this one

    def _lose(self) -> None:
        if self.is_open:
            self.close()
            self._on_lost()

    def _take_over(self, descriptors: list[int]) -> None:
        """Take over what a worker may send besides the memory of its answers.

        :raises ChannelClosed: an arena is not one, or does not have the right size.
        """
        for descriptor in descriptors:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                self.call_socket = get_original("socket", "socket")(fileno=descriptor)
            else:
                self.metric_memory = ArenaReader(descriptor).view(Slab(0, SIZE))

    def _on_writable(self) -> None:
        assert self._rest is not None
        try:
            sent = self._socket.send(self._rest)
        except BlockingIOError:
            return
        except OSError:
            self._lose()
            return
        rest = self._rest[sent:]
        if not rest and self._waiting:
            rest = memoryview(self._waiting.popleft())
        self._rest = rest if rest else None
        if self._rest is None:
            self._writable.stop()

    def _on_readable(self) -> None:
        try:
            if self._answers is None:
                messages, (answers, *others) = self._reader.read_first(1, 3)
                try:
                    self._answers = ArenaReader(answers, self._mapped)
                finally:
                    self._take_over(others)
            else:
                messages = self._reader.read()
            self._busy_loop.answered()
            for message in messages:
                if self.is_open:
                    self.on_message(message)
        except BlockingIOError:
            return
        except (ChannelClosed, OSError):
            self._lose()

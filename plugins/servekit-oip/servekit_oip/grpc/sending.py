# SPDX-License-Identifier: Apache-2.0
"""Sends the frames of a connection: one write for each turn of the loop, within the windows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from servekit_oip.grpc.frames import DATA, WINDOW_UPDATE, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from servekit_oip.grpc.call import GrpcCall

__all__ = ["FIRST_WINDOW", "GrpcSender"]

FIRST_WINDOW: Final = 65_535  #: bytes that a client lets us send before it says otherwise


class GrpcSender:
    """Sends the frames of one connection."""

    def __init__(
        self,
        transport: asyncio.Transport,
        calls: Mapping[int, GrpcCall],
        timeout_s: float,
        on_end: Callable[[GrpcCall], object],
        on_stuck: Callable[[], object],
    ) -> None:
        """Send by *transport*.

        :param calls: the open calls of the connection.
        :param timeout_s: how long a client may take nothing of the data that waits for it.
        :param on_end: called with each call whose last frame is on its way.
        :param on_stuck: called after *timeout_s*.
        """
        self._transport, self._calls = transport, calls
        self._timeout_s, self._on_end, self._on_stuck = timeout_s, on_end, on_stuck
        self._loop = asyncio.get_running_loop()
        self.window = self.first_window = FIRST_WINDOW  #: for all streams, for a new one
        self.max_frame = 16_384  #: bytes in a frame
        self._output: list[bytes | memoryview] = []
        self._moved = 0  #: bytes of data that had to wait, and have been sent
        self._clock: asyncio.TimerHandle | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Send *data* with all that is written in this turn of the loop."""
        if not self._output:
            self._loop.call_soon(self.flush)
        self._output.append(data)

    def flush(self) -> None:
        """Send what has been written."""
        output, self._output = self._output, []
        if output and not self._transport.is_closing():
            self._transport.write(b"".join(output))

    def close(self) -> None:
        """Forget the clock."""
        if self._clock is not None:
            self._clock.cancel()

    def credit(self, call: GrpcCall, size: int) -> None:
        """Let the client send *size* more bytes of *call*."""
        if size:
            self.write(frame(WINDOW_UPDATE, 0, call.id, size.to_bytes(4)))

    # ------------------------------------------------------------ calls

    def send_whole(self, call: GrpcCall, head: bytes, content: bytes, last: bytes) -> bool:
        """Send a whole response in one write; return whether there is room for it."""
        size = len(content)
        if call.outgoing or size > min(call.window, self.window, self.max_frame):
            return False
        self.window -= size
        self.write(b"".join((head, frame(DATA, 0, call.id, content), last)))
        self._on_end(call)
        return True

    def send_data(self, call: GrpcCall, content: bytes) -> None:
        """Send *content* as DATA, as far as there is room."""
        call.outgoing.append((memoryview(content), False))
        self._send_waiting_of(call)

    def end_call(self, call: GrpcCall, last: bytes) -> None:
        """Send the frame *last* after the data of *call*."""
        if call.outgoing:
            call.outgoing.append((memoryview(last), True))
            return
        self.write(last)
        self._on_end(call)

    def send_waiting(self) -> None:
        """Send what there is room for now."""
        for call in [each for each in self._calls.values() if each.outgoing]:
            self._send_waiting_of(call)

    def _send_waiting_of(self, call: GrpcCall) -> None:
        while call.outgoing:
            content, is_last = call.outgoing[0]
            if is_last:
                call.outgoing.popleft()
                self.write(content)
                self._on_end(call)
                return
            size = min(len(content), self.max_frame, call.window, self.window)
            if size <= 0:
                self._watch()
                return
            self.window -= size
            call.window -= size
            self._moved += size
            self.write(frame(DATA, 0, call.id, content[:size].tobytes()))
            if size == len(content):
                call.outgoing.popleft()
            else:
                call.outgoing[0] = content[size:], False

    # ------------------------------------------------------------ clients that do not read

    def _watch(self) -> None:
        """Look later whether the client takes anything."""
        if self._clock is None:
            self._clock = self._loop.call_later(self._timeout_s, self._look, self._moved)

    def _look(self, moved: int) -> None:
        self._clock = None
        if any(call.outgoing for call in self._calls.values()):
            if self._moved == moved:
                self._on_stuck()
            else:
                self._watch()

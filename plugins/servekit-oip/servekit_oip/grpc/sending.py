# SPDX-License-Identifier: Apache-2.0
"""Sends the frames of a connection: one write for each turn of the loop, within the windows."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from servekit.frontend.transport import SocketWriter, do_nothing
from servekit_oip.grpc.frames import DATA, FIRST_WINDOW, SETTINGS, ProtocolError, frame

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.transport import Host, TlsSocket
    from servekit_oip.grpc.call import GrpcCall

__all__ = ["GrpcSender"]

LARGEST: Final = 2**31 - 1  #: window
MAX_FRAME: Final = 65_536  #: bytes in a frame, whatever the client allows
INITIAL_WINDOW, FRAME_SIZE = 4, 5  #: settings
FLOW_CONTROL, FRAME_SIZE_ERROR = 3, 6
NOTHING: Final = -1  #: the client has taken everything since it was last looked at


class GrpcSender:
    """Sends the frames of one connection."""

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        host: Host,
        on_end: Callable[[GrpcCall, int], object],
        on_stall: Callable[[], object],
        on_flushed: Callable[[], None],
        on_lost: Callable[[], None],
        shed: Callable[[], None],
    ) -> None:
        """Send by the non-blocking *sock*.

        :param on_end: called with each call whose last frame is on its way, and the bytes of it.
        :param on_stall: called when something has to wait for the client.
        :param on_flushed: called when the kernel has taken everything.
        :param on_lost: called when the connection is broken.
        :param shed: called when others need the memory that this client holds.
        """
        self.calls: dict[int, GrpcCall] = {}  #: by stream, those that are open
        self.on_end, self._on_stall = on_end, on_stall
        self._run_callback, self._pressure = host.loop.run_callback, host.pressure
        self._on_flushed = on_flushed
        self.writer = SocketWriter(sock, host, self._continue, on_lost)
        self.window = self.first_window = FIRST_WINDOW  #: for all streams, for a new one
        self.max_frame = 16_384  #: bytes in a frame
        self._output: list[bytes | memoryview] = []
        self.is_due = False  #: ``flush`` follows in this turn of the loop
        self.shed = shed
        self.moved = 0  #: bytes of data that had to wait, and have been sent
        self.held = 0  #: bytes of data that wait for the client
        self._seen, self._looked_at = NOTHING, 0.0

    def write(self, data: bytes | memoryview) -> None:
        """Send *data* with all that is written in this turn of the loop."""
        if not self.is_due:
            self.is_due = True
            self._run_callback(self.flush)
        self._output.append(data)

    def flush(self) -> None:
        """Send what has been written."""
        self.is_due = False
        output, self._output = self._output, []
        if output:
            self.writer.send(b"".join(output))
            if self.writer.rest:
                self._on_stall()

    def close(self) -> None:
        """Drop what is pending, and the callbacks: they refer to the connection."""
        self.writer.close()
        self._output.clear()
        self.on_end = self._on_stall = self._on_flushed = self.shed = do_nothing

    def _continue(self) -> None:
        """Continue: the kernel has taken everything."""
        self.send_waiting()
        self._on_flushed()

    # ------------------------------------------------------------ what the client allows

    def take_settings(self, content: bytes) -> None:
        """Keep to the settings of the client, and confirm them.

        :raises ProtocolError: they are malformed.
        """
        if len(content) % 6:
            raise ProtocolError(FRAME_SIZE_ERROR, "settings are cut off")
        settings = {  # the last one of each counts: applying them takes long with many calls
            int.from_bytes(content[at : at + 2]): int.from_bytes(content[at + 2 : at + 6])
            for at in range(0, len(content), 6)
        }
        for name, value in settings.items():
            self._set(name, value)
        self.write(frame(SETTINGS, 1, 0))
        self.send_waiting()

    def _set(self, name: int, value: int) -> None:
        if name == INITIAL_WINDOW:
            if value > LARGEST:
                raise ProtocolError(FLOW_CONTROL, "the window is too large")
            for call in self.calls.values():
                call.window += value - self.first_window
            self.first_window = value
        elif name == FRAME_SIZE and 16_384 <= value < 2**24:
            self.max_frame = min(value, MAX_FRAME)

    def take_window(self, stream: int, content: bytes) -> None:
        """Widen the window of a stream, or that of the connection.

        :raises ProtocolError: it gets too large.
        """
        count = int.from_bytes(content[:4]) & LARGEST
        if not stream:
            self.window += count
            if not count or self.window > LARGEST:
                raise ProtocolError(FLOW_CONTROL, "the window is too large")
            self.send_waiting()
        elif call := self.calls.get(stream):
            call.window += count
            self._send_waiting_of(call)

    # ------------------------------------------------------------ calls

    def takes_whole(self, call: GrpcCall, size: int) -> bool:
        """Return whether *size* bytes of data may be sent now; if so, count them."""
        if call.outgoing or size > min(call.window, self.window, self.max_frame):
            return False
        if self.writer.rest:
            return False
        self.window -= size
        return True

    def send_data(self, call: GrpcCall, content: bytes) -> None:
        """Send *content* as DATA, as far as there is room."""
        if call.outgoing is None:
            call.outgoing = deque()
        self._hold(len(content))
        call.outgoing.append((memoryview(content), False))
        self._send_waiting_of(call)

    def end_call(self, call: GrpcCall, last: bytes) -> None:
        """Send the frame *last* after the data of *call*."""
        if call.outgoing:
            call.outgoing.append((memoryview(last), True))
            return
        self.write(last)
        self.on_end(call, len(last))

    def drop(self, call: GrpcCall) -> None:
        """Forget the data of *call* that has not been sent."""
        if call.outgoing:
            held = sum(len(content) for content, is_last in call.outgoing if not is_last)
            call.outgoing.clear()
            self._hold(-held)

    bodies = None  #: it holds responses, not bodies of requests

    @property
    def left(self) -> int:
        """Bytes that are still to be sent."""
        return self.held

    def _hold(self, size: int) -> None:
        was_holding, self.held = self.held > 0, self.held + size
        self._pressure.hold_answers(size)
        if self.held and not was_holding:
            self._pressure.shedder.add(self)
        elif was_holding and not self.held:
            self._pressure.shedder.discard(self)
            self._seen = NOTHING  # the client keeps up: a later wait begins from zero

    def is_stuck(self, now: float, timeout_s: float, rate: int) -> bool:
        """Whether the client took less than *rate* bytes a second for *timeout_s*, or nothing."""
        if not self.held:
            return False
        if self._seen == NOTHING or self.moved - self._seen >= max(1, int(rate * timeout_s)):
            self._seen, self._looked_at = self.moved, now
        return now - self._looked_at >= timeout_s

    def send_waiting(self) -> None:
        """Send what there is room for now."""
        for call in [each for each in self.calls.values() if each.outgoing]:
            self._send_waiting_of(call)

    def _send_waiting_of(self, call: GrpcCall) -> None:
        outgoing = call.outgoing
        while outgoing:
            content, is_last = outgoing[0]
            if is_last:
                outgoing.popleft()
                self.write(content)
                self.on_end(call, self.max_frame)
                return
            size = min(len(content), self.max_frame, call.window, self.window)
            if size <= 0 or self.writer.rest:
                self._on_stall()
                return
            self.window -= size
            call.window -= size
            self.moved += size
            self._hold(-size)
            self.write(frame(DATA, 0, call.id, content[:size].tobytes()))
            if size == len(content):
                outgoing.popleft()
            else:
                outgoing[0] = content[size:], False

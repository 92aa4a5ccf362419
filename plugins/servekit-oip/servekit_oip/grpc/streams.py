# SPDX-License-Identifier: Apache-2.0
"""The streams of one connection: what its frames mean for calls. Runs in: front-ends."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from servekit.frontend.transport import TlsSocket, do_nothing
from servekit_oip.grpc import frames
from servekit_oip.grpc.answers import ANSWERS
from servekit_oip.grpc.call import NEVER, GrpcCall
from servekit_oip.grpc.codes import GrpcError
from servekit_oip.grpc.frames import (
    CALM,
    DATA,
    HEADERS,
    BlockDecoder,
    ProtocolError,
    frame,
    unpadded,
)
from servekit_oip.grpc.limits import CallAllowance, MessageBudget

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from servekit.frontend.transport import Host
    from servekit_oip.grpc.sending import GrpcSender

__all__ = ["MAX_CONTENT", "NO_ERROR", "PROTOCOL_ERROR", "CallStreams"]

MAX_CALLS: Final = 1024  #: calls on one connection at the same time
MAX_CONTENT: Final = 65_535  #: bytes of a frame that we take: the first window of a call
#: of the connection: it is never what holds a client back, since each stream has its own
WINDOW: Final = 2**30
SMALL: Final = 64  #: bytes of DATA that are hardly worth a frame
NO_ERROR, PROTOCOL_ERROR, STREAM_CLOSED, REFUSED = 0, 1, 5, 7
CALLS, FRAME_SIZE, LIST_SIZE = 3, 5, 6  #: settings


class CallStreams:
    """Owns the calls of a connection."""

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        peer: Any,
        host: Host,
        sender: GrpcSender,
        on_wait: Callable[[], None],
    ) -> None:
        """Begin without a call.

        :param on_wait: called when the client has to send, or to take, something.
        """
        self._socket, self.peer, self.host, self.sender = sock, peer, host, sender
        self._on_wait = on_wait
        self.budget = MessageBudget()
        self._decoder = BlockDecoder(host.settings.max_header)
        self.allowance = CallAllowance()
        #: flags, stream and fields of a header block that is incomplete, and since when
        self._block: tuple[int, int, bytearray, float] | None = None
        self._last = 0  #: the newest stream
        self._arrived = 0  #: bytes of DATA that the client may send again
        self.is_leaving = False  #: no more calls are taken
        settings = (CALLS, MAX_CALLS), (FRAME_SIZE, MAX_CONTENT)
        known = dict(settings) | {LIST_SIZE: host.settings.max_header}
        content = b"".join(name.to_bytes(2) + value.to_bytes(4) for name, value in known.items())
        sender.write(frame(frames.SETTINGS, 0, 0, content))
        self._widen_by(WINDOW - frames.FIRST_WINDOW)

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return isinstance(self._socket, TlsSocket)

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""
        return self._socket.subject if isinstance(self._socket, TlsSocket) else ""

    # ------------------------------------------------------------ frames

    def take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        """Handle a frame.

        :raises ProtocolError: the connection has to end.
        """
        if self._block is not None and kind != frames.CONTINUATION:
            raise ProtocolError(PROTOCOL_ERROR, "a header block is interrupted")
        if kind == HEADERS:
            block = unpadded(kind, flags, content)
            if flags & frames.END_HEADERS:
                self._begin(flags, stream, block)
            else:
                self._block = flags, stream, bytearray(block), monotonic()
                self._on_wait()
        elif kind == DATA:
            self._take_data(flags, stream, content)
        else:
            self.allowance.charge()
            self._take_other(kind, flags, stream, content)

    def _take_other(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == frames.CONTINUATION:
            self._continue(flags, stream, content)
        elif kind == frames.WINDOW_UPDATE:
            self.sender.take_window(stream, content)
        elif kind == frames.RST_STREAM:
            self._take_reset(stream)
        elif kind == frames.SETTINGS and not flags & 1:
            self.sender.take_settings(content)
        elif kind == frames.PING and not flags & 1:
            self.sender.write(frame(frames.PING, 1, 0, content[:8]))
        elif kind == frames.GOAWAY:
            self.is_leaving = True

    def _continue(self, flags: int, stream: int, content: bytes) -> None:
        if self._block is None or self._block[1] != stream:
            raise ProtocolError(PROTOCOL_ERROR, "a header block is continued that has not begun")
        first, _, block, _ = self._block
        block += content
        if len(block) > self.host.settings.max_header:
            raise ProtocolError(CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            self._block = None
            self._begin(first, stream, bytes(block))

    def _take_reset(self, id_: int) -> None:
        call = self.sender.calls.pop(id_, None)
        if call is not None:
            call.abandon()
            self.allowance.charge_reset()

    # ------------------------------------------------------------ calls

    def _begin(self, flags: int, id_: int, block: bytes) -> None:
        """Begin a call; fields at its end are trailers, which say nothing to a gRPC server."""
        fields, calls = self._decoder.decode(block), self.sender.calls
        if id_ in calls:
            if calls[id_].has_ended or not flags & frames.END_STREAM:
                self._reset(id_, STREAM_CLOSED if calls[id_].has_ended else PROTOCOL_ERROR)
            else:
                self._end_call(calls[id_], flags)
            return
        if not id_ & 1 or id_ <= self._last:
            raise ProtocolError(STREAM_CLOSED, "a stream is used again")
        self._last = id_
        if len(calls) >= MAX_CALLS or self.is_leaving:
            self._reset(id_, REFUSED)
            return
        if fields.is_malformed:
            self._reset(id_, PROTOCOL_ERROR)
            return
        call = calls[id_] = GrpcCall(self, id_, fields)
        if fields.refusal:
            call.refuse(fields.refusal)
            return
        if call.deadline != NEVER:
            call.check_time(monotonic(), is_midway=True)
            self._on_wait()
        if not call.is_over:
            ANSWERS.begin(call)
            self._end_call(call, flags)
            if not call.has_ended:
                self._on_wait()

    def _reset(self, id_: int, code: int) -> None:
        """End the stream *id_*, and charge the client for it.

        :raises ProtocolError: there were too many.
        """
        self.sender.write(frame(frames.RST_STREAM, 0, id_, code.to_bytes(4)))
        call = self.sender.calls.pop(id_, None)
        if call is not None:
            call.abandon()
        self.allowance.charge_reset()

    def _take_data(self, flags: int, stream: int, content: bytes) -> None:
        size = len(content)
        self._arrived += size
        if self._arrived > WINDOW // 4:
            self._widen_by(self._arrived)
            self._arrived = 0
        call = self.sender.calls.get(stream)
        if call is None or call.is_over:
            if not 0 < stream <= self._last:
                raise ProtocolError(PROTOCOL_ERROR, "data of a stream that has not begun")
            self.allowance.charge()
            return
        if call.has_ended:
            self._reset(stream, STREAM_CLOSED)
            return
        is_last = bool(flags & frames.END_STREAM)
        try:
            is_whole = call.take(unpadded(DATA, flags, content), size, is_last=is_last)
        except GrpcError as error:
            call.stop()
            call.fail(error)
            return
        if is_last:
            self._end_call(call, flags)
            return
        if is_whole:
            self.allowance.credit_message(size)
        elif size < SMALL:
            self.allowance.charge()
        assert call.incoming is not None
        call.incoming.widen()
        if call.is_awaited:
            self._on_wait()

    def _end_call(self, call: GrpcCall, flags: int) -> None:
        if flags & frames.END_STREAM and not call.is_over:
            call.has_ended = True
            call.take_end()
            if not call.is_stream:
                ANSWERS.answer(call)

    def _widen_by(self, count: int) -> None:
        self.sender.write(frame(frames.WINDOW_UPDATE, 0, 0, count.to_bytes(4)))

    def forget(self, call: GrpcCall, size: int) -> None:
        """Forget *call*, which has been answered with *size* bytes."""
        self.allowance.credit_call(size)
        self.sender.calls.pop(call.id, None)

    # ------------------------------------------------------------ time, and the end

    @property
    def has_calls(self) -> bool:
        """Whether a call is not answered yet."""
        return bool(self.sender.calls)

    @property
    def has_to_wait(self) -> bool:
        """Whether the client has to send, or to take, something."""
        if self._block is not None:
            return True
        calls = self.sender.calls.values()
        return any(call.deadline != NEVER or call.is_awaited for call in calls)

    def check_time(self, now: float, *, is_midway: bool) -> None:
        """Fail the calls whose time is over.

        :param is_midway: a frame is incomplete, so nothing else can arrive.
        :raises ProtocolError: a header block does not end.
        """
        for call in list(self.sender.calls.values()):
            call.check_time(now, is_midway=is_midway)
        if self._block is not None and now > self._block[3] + self.host.settings.header_timeout:
            raise ProtocolError(PROTOCOL_ERROR, "a header block did not arrive in time")

    def say_goodbye(self, code: int) -> None:
        """Tell the client that no more calls are taken, or why the connection ends."""
        self.is_leaving = True
        content = self._last.to_bytes(4) + code.to_bytes(4)
        self.sender.write(frame(frames.GOAWAY, 0, 0, content))

    def end_idle(self) -> None:
        """End the streams of calls that wait for their clients: the front-end shuts down."""
        for call in list(self.sender.calls.values()):
            if call.is_idle is not None and call.is_idle():
                call.give_up("the server restarts or shuts down")

    def close(self) -> None:
        """End all calls, and drop the callback: it refers to the connection."""
        self.drop_all()
        self._on_wait = do_nothing

    def drop_all(self) -> None:
        """End all calls without a word."""
        calls = list(self.sender.calls.values())
        self.sender.calls.clear()
        self.budget.clear()
        for call in calls:
            call.abandon()

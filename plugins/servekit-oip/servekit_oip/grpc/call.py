# SPDX-License-Identifier: Apache-2.0
"""One call of gRPC: a stream of an HTTP/2 connection, with messages both ways."""

from __future__ import annotations

from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import gevent
from gevent.queue import SimpleQueue

from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    block_of,
    frame,
)
from servekit_oip.grpc.incoming import PREFIX, CallMessage, IncomingMessages

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator

    from servekit.extension import HttpRequest
    from servekit_oip.grpc.frames import RequestFields
    from servekit_oip.grpc.streams import CallStreams

__all__ = ["NEVER", "GrpcCall"]

UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
#: ``:status: 200`` and ``content-type: application/grpc``
HEAD: Final = b"\x88" + block_of([(b"content-type", b"application/grpc")])
GOOD_END: Final = block_of([(b"grpc-status", b"0")])
#: a whole good response: HEADERS and the head of DATA, which the message follows; and its end
WHOLE: Final = Struct(f">5sI{len(HEAD)}sHBBBIBI")
END: Final = Struct(f">5sI{len(GOOD_END)}s")
HEAD_START: Final = frame(HEADERS, END_HEADERS, 0, HEAD)[:PREFIX]
END_START: Final = frame(HEADERS, END_HEADERS | END_STREAM, 0, GOOD_END)[:PREFIX]
SHOWN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")  #: in ``grpc-message``
MAX_OUTGOING: Final = 16  #: messages that wait for the client; then a stream is not read on
LOOK_S: Final = 0.01
MAX_TEXT: Final = 4096  #: characters of an error
NEVER: Final = float("inf")


class GrpcCall:
    """One call, from its header fields to its status."""

    __slots__ = (
        *("_answered", "_messages", "_sender"),
        *(
            "cancel",
            "deadline",
            "fields",
            "find_route",
            "has_ended",
            "id",
            "incoming",
            "is_idle",
            "is_over",
        ),
        *("message", "outgoing", "streams", "window"),
    )

    def __init__(self, streams: CallStreams, id_: int, fields: RequestFields) -> None:
        """Begin the stream *id_* of *streams*."""
        self.streams, self.id, self.fields = streams, id_, fields
        self._sender = sender = streams.sender
        self.window = sender.first_window  #: bytes that the client lets us send
        timeout = fields.timeout
        #: ``monotonic``
        self.deadline = monotonic() + seconds_of(timeout) if timeout else NEVER
        self.incoming: IncomingMessages | None = None  #: for messages in several frames
        self.message: CallMessage | None = None  #: the only one, where one is expected
        self._messages: Any = None  #: those of a stream
        self.outgoing: deque[tuple[memoryview, bool]] | None = None  #: DATA that waits for room
        self._answered = self.is_over = False
        self.has_ended = False  #: the client sends no more
        self.cancel: Callable[[], object] | None = None  #: called if the client leaves
        #: whether a stream has nothing to answer
        self.is_idle: Callable[[], bool] | None = None
        #: returns a request with the route of the large message that begins so
        self.find_route: Callable[[bytes, GrpcCall], HttpRequest | None] | None = None

    # ------------------------------------------------------------ what handlers see

    def messages(self) -> Iterator[CallMessage]:
        """Yield the messages of the client, as they arrive. In a greenlet."""
        while (message := self._messages.get()) is not None:
            message.release(self.streams)
            if self.incoming is not None:
                self.incoming.widen()
            yield message

    def begin_stream(self) -> None:
        """Take messages one by one from now on."""
        self._messages = SimpleQueue()

    # ------------------------------------------------------------ what arrives

    @property
    def is_stream(self) -> bool:
        """Whether messages are taken one by one."""
        return self._messages is not None

    @property
    def waiting(self) -> int:
        """How many messages of a stream wait for their handler."""
        return 0 if self._messages is None else len(self._messages)

    def take(self, content: bytes, size: int, *, is_last: bool) -> bool:
        """Take a part of the messages; return whether one is whole now.

        :param size: bytes that flow control counts for it.
        :param is_last: nothing follows.
        :raises GrpcError: one is too large, or compressed in an unknown way, or one too many.
        :raises ProtocolError: the client sends more than it may.
        """
        if self.incoming is None:
            message_size = len(content) - PREFIX
            is_plain = is_last and message_size >= 0 and not content[0]
            if is_plain and int.from_bytes(content[1:PREFIX]) == message_size:
                self.note(CallMessage(content[PREFIX:]))
                return True
            self.incoming = IncomingMessages(self)
        return self.incoming.take(content, size)

    def note(self, message: CallMessage) -> None:
        """Keep a whole *message* for its handler.

        :raises GrpcError: it is one too many.
        """
        if self._messages is not None:
            self._messages.put(message)
        elif self.message is None:
            self.message = message
        else:
            message.discard(self.streams)
            raise GrpcError(StatusCode.INTERNAL, "expected one message")

    def take_end(self) -> None:
        """Note that no more messages come."""
        if self._messages is not None:
            self._messages.put(None)

    @property
    def is_awaited(self) -> bool:
        """Whether the client has to send the rest of a message, or the end of the only one."""
        if self.is_over or self.has_ended:
            return False
        return not self.is_stream or (self.incoming is not None and self.incoming.is_midway)

    def check_time(self, now: float, *, is_midway: bool) -> None:
        """Fail if the deadline has passed, or the client is too slow.

        :param is_midway: a frame of the connection is incomplete, so nothing else can arrive.
        """
        if self.deadline <= now:
            self.stop()
            self.fail(GrpcError(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
        elif not is_midway and self.is_awaited and self._is_late(now):
            self.give_up("the message did not arrive completely in time")

    def _is_late(self, now: float) -> bool:
        if self.incoming is None:
            self.incoming = IncomingMessages(self)  # its time begins
        return self.incoming.is_late(now)

    def give_up(self, text: str) -> None:
        """Fail because of *text*, which is nobody's mistake."""
        self.stop()
        self.fail(GrpcError(StatusCode.UNAVAILABLE, text))

    def stop(self) -> None:
        """Drop what has been begun for it."""
        cancel, self.cancel = self.cancel, None
        if cancel is not None:
            cancel()

    # ------------------------------------------------------------ what is sent

    def finish(self, message: bytes | memoryview) -> None:
        """Send the only message, and the good status. *message* is copied."""
        if self.is_over:
            return
        size, id_ = len(message) + PREFIX, self.id
        if self._sender.takes_whole(self, size):
            start = WHOLE.pack(
                *(HEAD_START, id_, HEAD, size >> 8, size & 0xFF, DATA, 0, id_),
                *(0, size - PREFIX),
            )
            self._sender.write(start)
            self._sender.write(message)
            self._sender.write(END.pack(END_START, id_, GOOD_END))
            self._note_end()
            self._sender.on_end(self, size)
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

    def refuse(self, status: int) -> None:
        """Answer with a *status* of HTTP: the request is not a gRPC call."""
        self._note_end()
        block = block_of([(b":status", b"%d" % status)])
        self._sender.end_call(self, frame(HEADERS, END_HEADERS | END_STREAM, self.id, block))

    def send(self, message: bytes | memoryview) -> None:
        """Send *message*, when the client has room for it."""
        if self.is_over:
            return
        if not self._answered:
            self._answered = True
            self._sender.write(frame(HEADERS, END_HEADERS, self.id, HEAD))
        content = b"\0" + len(message).to_bytes(4, "big") + message
        self._sender.send_data(self, content)
        self.streams.allowance.credit_message(len(content))

    def wait_for_room(self) -> None:
        """Wait while the client does not take what has been sent. In a greenlet."""
        while self.outgoing is not None and len(self.outgoing) > MAX_OUTGOING and not self.is_over:
            gevent.sleep(LOOK_S)

    def _end(self, block: bytes) -> None:
        if self.is_over:
            return
        self._note_end()
        if not self._answered:
            block = HEAD + block
        self._sender.end_call(self, frame(HEADERS, END_HEADERS | END_STREAM, self.id, block))

    def _note_end(self) -> None:
        self.is_over, self.cancel = True, None
        if self.incoming is not None:
            self.incoming.abandon()
            self.incoming = None
        self._discard_messages()

    def _discard_messages(self) -> None:
        """Give the memory of messages back that no handler has taken."""
        message, self.message = self.message, None
        if message is not None:
            message.discard(self.streams)
        while self.waiting:
            if (message := self._messages.get_nowait()) is not None:
                message.discard(self.streams)

    def abandon(self) -> None:
        """End without a word: the client has left."""
        cancel = self.cancel
        if not self.is_over:
            self._note_end()
        if cancel is not None:
            cancel()
        self._sender.drop(self)


def seconds_of(timeout: bytes) -> float:
    """Return the seconds that *timeout* says, such as ``100m``; a bad one is over at once."""
    unit = UNITS.get(timeout[-1:])
    digits = timeout[:-1]
    return int(digits) * unit if unit and digits.isdigit() and len(digits) <= 8 else 0.0

# SPDX-License-Identifier: Apache-2.0
"""``h2``'s state machine as a server needs it: its settings, and where it is too strict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import InvalidBodyLengthError, ProtocolError
from h2.settings import SettingCodes, Settings
from h2.stream import H2Stream
from h2.utilities import is_informational_response
from hpack.exceptions import HPACKError
from hyperframe.frame import GoAwayFrame

from servekit_http2.frames import (
    ACK,
    CONTINUATION,
    HEADER_BYTES,
    PUSH_PROMISE,
    SETTINGS,
    WINDOW_UPDATE,
    FrameError,
)
from servekit_http2.hpack_decoder import FieldDecoder
from servekit_http2.hpack_encoder import FieldEncoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h2.events import Event

    from servekit_http2.frames import Frame

__all__ = ["MAX_STREAMS", "MalformedRequest", "ServerProtocol"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_STREAMS = 100  #: at a time
WINDOW_BYTES = 65_535  #: default window of a stream, and of the connection
#: window of the connection: if all streams but one wait for room, there is some left for that one
CONNECTION_WINDOW_BYTES = 2 * MAX_STREAMS * WINDOW_BYTES
BOMB = 4  #: a header list of more than this many times the limit is not decoded further
LAST_POSSIBLE = 2**31 - 1
NO_LIMIT = 2**31 - 1
ENTRY_BYTES = 6  #: each setting in SETTINGS
UNKNOWN = 0xFF  #: a type of frames that ``h2`` ignores
QUOTED_CHARS = 80  #: characters of a field, in the log
KNOWN_SETTINGS = frozenset(code.to_bytes(2, "big") for code in SettingCodes)


class MalformedRequest(Exception):
    """A stream error: the stream alone ends, with PROTOCOL_ERROR."""


class MalformedFields(ProtocolError):
    """Passes through ``h2``, which takes it for the end of the connection."""


class RequestStream(H2Stream):
    """One stream of ``h2``, for which malformed fields are not the end of the connection."""

    def receive_headers(
        self, headers: Iterable[Any], end_stream: bool, header_encoding: bool | str | None
    ) -> tuple[list[Any], list[Event]]:
        """Take a header section, or trailers.

        :raises MalformedFields: the trailers do not end the stream (RFC 9113 8.1).
        """
        if not (end_stream or self.closed) and self.state_machine.headers_received:
            raise MalformedFields("trailers that do not end the stream")
        if is_informational_response(headers):  # else h2 takes a malformed request for a response
            headers = [(name, b"") for name, _ in headers]
        return super().receive_headers(headers, end_stream, header_encoding)

    def _initialize_content_length(self, headers: Iterable[Any]) -> None:
        """Note how long the body will be.

        :raises MalformedFields: ``Content-Length`` is not a number, or two (RFC 9113 8.1.1).
        """
        try:
            super()._initialize_content_length(headers)
        except ProtocolError as error:
            raise MalformedFields(str(error)[:QUOTED_CHARS]) from error


class ServerProtocol(H2Connection):
    """Frames in, events out; bytes to send wait in it. No socket, no clock."""

    MAX_CLOSED_STREAMS = 256  #: remembered: a connection may live for millions

    def __init__(self, max_header: int) -> None:
        """Begin as a server that accepts header sections of *max_header* bytes."""
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                # request_builder.py does: here, a malformed request would end all the others
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.encoder: Any = FieldEncoder()
        settings = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: max_header,
        }
        self.local_settings = Settings(client=False, initial_values=settings)
        self.initiate_connection()
        # A stream too many is refused alone, after its header block has been decoded
        settings[SettingCodes.MAX_CONCURRENT_STREAMS] = NO_LIMIT
        self.local_settings = Settings(client=False, initial_values=settings)
        self.decoder: Any = FieldDecoder(BOMB * max_header)  # up to there it is a 431
        self._pending = b""  #: bytes to send from before the current frame
        self.increment_flow_control_window(CONNECTION_WINDOW_BYTES - WINDOW_BYTES)
        self.receive_data(PREFACE)

    def take(self, frame: Frame) -> list[Event]:
        """Return the events of *frame*.

        :raises FrameError: the connection has to end.
        :raises MalformedRequest: the stream of *frame* has to end.
        """
        if frame.kind == PUSH_PROMISE:  # h2 would wait for all of it
            raise FrameError(ErrorCodes.PROTOCOL_ERROR, "PUSH_PROMISE by a client")
        data = as_h2_reads(frame)
        if frame.kind == WINDOW_UPDATE and data[HEADER_BYTES:] == bytes(4):
            stream = self.streams.get(frame.stream_id)
            if stream is not None and stream.open:  # the end of a stream (RFC 9113 6.9)
                raise MalformedRequest("WINDOW_UPDATE: by 0")
        self._pending = self.drain()  # h2 drops it after an error, or a GOAWAY
        try:
            events = self.receive_data(data)
        except MalformedFields as error:
            self._reopen()
            raise MalformedRequest(str(error)) from error
        except InvalidBodyLengthError as error:
            self._reopen()
            self.acknowledge_received_data(len(frame.data) - HEADER_BYTES, frame.stream_id)
            raise MalformedRequest(str(error)) from error
        except ProtocolError as error:
            is_undecodable = isinstance(error.__cause__, HPACKError)
            is_bomb = error.error_code == ErrorCodes.ENHANCE_YOUR_CALM
            code = error.error_code
            if is_undecodable and not is_bomb:
                code = ErrorCodes.COMPRESSION_ERROR  # h2 always says PROTOCOL_ERROR
            self._reopen()
            raise FrameError(code, str(error)) from error
        if self.state_machine.state is ConnectionState.CLOSED:
            self._reopen()  # streams before the client's GOAWAY are answered (RFC 9113 6.8)
        return events

    def _begin_new_stream(self, stream_id: int, allowed_ids: Any) -> H2Stream:
        stream = super()._begin_new_stream(stream_id, allowed_ids)
        stream.__class__ = RequestStream  # h2 has no other way to name a class
        return stream

    def _receive_priority_frame(self, frame: Any) -> tuple[list[Any], list[Event]]:
        if frame.depends_on == frame.stream_id:  # priorities are ignored (RFC 9113 5.3.2)
            frame.depends_on = 0
        return super()._receive_priority_frame(frame)

    def has_seen(self, stream_id: int) -> bool:
        """Whether the client has opened this stream, or a later one."""
        return bool(stream_id <= self.highest_inbound_stream_id)

    def drain(self) -> bytes:
        """Return the bytes to send, and drop them."""
        pending, self._pending = self._pending, b""
        return pending + self.data_to_send()

    def forget(self) -> None:
        """Break the reference circles of h2's objects.

        After a flood, the garbage collector would look for those of all connections in one pause.
        """
        self.streams.clear()
        self.__dict__.clear()

    def _reopen(self) -> None:
        """Undo that ``h2`` has closed the connection, and drop what it would send."""
        self.clear_outbound_data_buffer()
        self.state_machine.state = ConnectionState.SERVER_OPEN

    def goodbye(self, code: ErrorCodes, *, is_last: bool) -> bytes:
        """Return a GOAWAY; unlike that of ``h2``, it does not end the current streams.

        :param is_last: it names the last stream that is answered; otherwise more may come.
        """
        frame = GoAwayFrame(0)
        frame.error_code = code
        frame.last_stream_id = self.highest_inbound_stream_id if is_last else LAST_POSSIBLE
        return bytes(frame.serialize())


def as_h2_reads(frame: Frame) -> bytes:
    """Return the bytes of *frame* without what ``h2`` would not ignore.

    These are the reserved bit of WINDOW_UPDATE, the content of frames that are not for servers
    (ALTSVC), and unknown SETTINGS, which it would keep.
    """
    data = frame.data
    if frame.kind == WINDOW_UPDATE and len(data) > HEADER_BYTES:
        return data[:HEADER_BYTES] + bytes((data[HEADER_BYTES] & 0x7F,)) + data[HEADER_BYTES + 1 :]
    if frame.kind > CONTINUATION:
        return data[:3] + bytes((UNKNOWN,)) + data[4:]
    if frame.kind != SETTINGS or frame.flags & ACK or (len(data) - HEADER_BYTES) % ENTRY_BYTES:
        return data
    entries = (data[n : n + ENTRY_BYTES] for n in range(HEADER_BYTES, len(data), ENTRY_BYTES))
    known = b"".join(entry for entry in entries if entry[:2] in KNOWN_SETTINGS)
    return len(known).to_bytes(3, "big") + data[3:HEADER_BYTES] + known

# SPDX-License-Identifier: Apache-2.0
"""``h2``'s state machine as a server needs it: what we say first, and where it is too strict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import InvalidBodyLengthError, ProtocolError
from h2.settings import SettingCodes, Settings
from hpack.exceptions import HPACKError
from hyperframe.frame import GoAwayFrame

from servekit.frontend.http2.frames import ACK, HEADER_BYTES, SETTINGS, FrameError
from servekit.frontend.http2.hpack_decoder import FieldDecoder
from servekit.frontend.http2.hpack_encoder import FieldEncoder

if TYPE_CHECKING:
    from h2.events import Event

    from servekit.frontend.http2.frames import Frame

__all__ = ["MAX_STREAMS", "WINDOW_BYTES", "MalformedRequest", "Protocol"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_STREAMS = 100  #: at a time
WINDOW_BYTES = 65_535  #: of a stream, until its body is known to have room
#: of all streams together: those that all wait for room leave some for one that does not
CONNECTION_WINDOW_BYTES = 2 * MAX_STREAMS * WINDOW_BYTES
BOMB = 4  #: a header list of so many times what is taken is decoded no further
LAST_POSSIBLE = 2**31 - 1
NO_LIMIT = 2**31 - 1
ENTRY_BYTES = 6  #: of SETTINGS
KNOWN_SETTINGS = frozenset(code.to_bytes(2, "big") for code in SettingCodes)


class MalformedRequest(Exception):
    """What came on a stream is no request: the stream alone ends, by PROTOCOL_ERROR."""


class Protocol(H2Connection):
    """Frames in, events out; bytes to send wait in it. No socket, no clock."""

    MAX_CLOSED_STREAMS = 256  #: remembered: a connection may live for millions

    def __init__(self, max_header: int) -> None:
        """Begin as a server that takes header sections of *max_header* bytes."""
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                # ``requests.py`` does: else one malformed request would end all the others
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.encoder: Any = FieldEncoder()
        said = {
            SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE: max_header,
        }
        self.local_settings = Settings(client=False, initial_values=said)
        self.initiate_connection()
        # A stream too many is refused by itself, and only after it was decoded
        said[SettingCodes.MAX_CONCURRENT_STREAMS] = NO_LIMIT
        self.local_settings = Settings(client=False, initial_values=said)
        self.decoder: Any = FieldDecoder(BOMB * max_header)  # up to there it is a 431
        self._said = b""  #: before the frame that is being looked at
        self.increment_flow_control_window(CONNECTION_WINDOW_BYTES - WINDOW_BYTES)
        self.receive_data(PREFACE)

    def take(self, frame: Frame) -> list[Event]:
        """Return what *frame* means.

        :raises FrameError: the connection cannot go on.
        :raises MalformedRequest: the stream of *frame* cannot.
        """
        self._said = self.drain()  # an error, or GOAWAY, makes h2 forget it
        try:
            events = self.receive_data(without_unknown(frame))
        except InvalidBodyLengthError as error:
            self._go_on()
            self.acknowledge_received_data(len(frame.data) - HEADER_BYTES, frame.stream_id)
            raise MalformedRequest(str(error)) from error
        except ProtocolError as error:
            is_undecodable = isinstance(error.__cause__, HPACKError)
            is_bomb = error.error_code == ErrorCodes.ENHANCE_YOUR_CALM
            code = error.error_code
            if is_undecodable and not is_bomb:
                code = ErrorCodes.COMPRESSION_ERROR  # h2 knows PROTOCOL_ERROR alone
            self._go_on()
            raise FrameError(code, str(error)) from error
        if self.state_machine.state is ConnectionState.CLOSED:
            self._go_on()  # after the client's GOAWAY its streams are answered (RFC 9113 6.8)
        return events

    def drain(self) -> bytes:
        """Return what is to be sent, once."""
        said, self._said = self._said, b""
        return said + self.data_to_send()

    def forget(self) -> None:
        """Let go of everything: h2's objects lie in circles, which the collector would look for.

        It would do so for all connections that a flood has left behind, in one long pause.
        """
        self.streams.clear()
        self.__dict__.clear()

    def _go_on(self) -> None:
        """Take back that ``h2`` holds the connection for closed, and says so."""
        self.clear_outbound_data_buffer()
        self.state_machine.state = ConnectionState.SERVER_OPEN

    def goodbye(self, code: ErrorCodes, *, is_last: bool) -> bytes:
        """Return a GOAWAY; what has begun goes on, where ``h2``'s own would end it.

        :param is_last: it names the last stream that is answered; else more may come.
        """
        frame = GoAwayFrame(0)
        frame.error_code = code
        frame.last_stream_id = self.highest_inbound_stream_id if is_last else LAST_POSSIBLE
        return bytes(frame.serialize())


def without_unknown(frame: Frame) -> bytes:
    """Return the bytes of *frame*; of SETTINGS without those that ``h2`` would keep for nothing."""
    data = frame.data
    if frame.kind != SETTINGS or frame.flags & ACK or (len(data) - HEADER_BYTES) % ENTRY_BYTES:
        return data
    entries = (data[n : n + ENTRY_BYTES] for n in range(HEADER_BYTES, len(data), ENTRY_BYTES))
    known = b"".join(entry for entry in entries if entry[:2] in KNOWN_SETTINGS)
    return len(known).to_bytes(3, "big") + data[3:HEADER_BYTES] + known

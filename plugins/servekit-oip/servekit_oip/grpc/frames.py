# SPDX-License-Identifier: Apache-2.0
"""The frames of HTTP/2 (RFC 9113), and header blocks (RFC 7541), as far as a gRPC server needs."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hpack import Decoder, HPACKError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "GOAWAY",
    "HEAD",
    "HEADERS",
    "PING",
    "PREFACE",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "BlockDecoder",
    "ProtocolError",
    "RequestFields",
    "block_of",
    "frame",
    "frames_of",
    "unpadded",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x4, 0x8, 0x20
HEAD: Final = 9  #: bytes before the content of a frame
FRAME: Final = Struct(">HBBBI")
MAX_KNOWN: Final = 256  #: header blocks whose fields are remembered


class ProtocolError(Exception):
    """The client breaks the rules of HTTP/2; the connection ends with this code."""

    def __init__(self, code: int, text: str) -> None:
        """Keep the *code* of RFC 9113 7."""
        super().__init__(text)
        self.code = code


class ReceivedFrame(NamedTuple):
    """One frame that has arrived whole."""

    kind: int
    flags: int
    stream: int
    content: bytes


def frames_of(buffer: bytearray, max_content: int) -> tuple[list[ReceivedFrame], int]:
    """Return the whole frames at the beginning of *buffer*, and how many bytes they are.

    :raises ProtocolError: a frame is larger than we allow.
    """
    found, at, end = [], 0, len(buffer)
    while end - at >= HEAD:
        high, low, kind, flags, stream = FRAME.unpack_from(buffer, at)
        size = high << 8 | low
        if size > max_content:
            raise ProtocolError(6, "a frame is too large")
        if end - at < HEAD + size:
            break
        content = bytes(buffer[at + HEAD : at + HEAD + size])
        found.append(ReceivedFrame(kind, flags, stream & 0x7FFFFFFF, content))
        at += HEAD + size
    return found, at


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(content)
    return FRAME.pack(size >> 8, size & 0xFF, kind, flags, stream) + content


def unpadded(received: ReceivedFrame) -> bytes:
    """Return the content of a DATA or HEADERS frame without padding and priority.

    :raises ProtocolError: there is more padding than content.
    """
    content, flags = received.content, received.flags
    if not flags & (PADDED | HAS_PRIORITY):
        return content
    start, padding = 0, 0
    if flags & PADDED:
        start, padding = 1, content[0] if content else 0
    if flags & HAS_PRIORITY and received.kind == HEADERS:
        start += 5
    if start + padding > len(content):
        raise ProtocolError(1, "more padding than content")
    return content[start : len(content) - padding]


# ---------------------------------------------------------------- header blocks


class RequestFields:
    """The header fields of calls; one object for all calls that have the same."""

    __slots__ = ("coding", "pairs", "passed_on", "path", "timeout")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Look for what every call needs."""
        self.pairs = pairs
        known = dict(pairs)
        self.path = known.get(b":path", b"")
        self.coding = known.get(b"grpc-encoding", b"")
        self.timeout = known.get(b"grpc-timeout", b"")
        self.passed_on: bytes | None = None  #: as header fields of HTTP/1.1, once they are known


class BlockDecoder:
    """Decodes header blocks. Clients repeat them, so the fields of most are remembered."""

    def __init__(self, max_size: int) -> None:
        """Refuse blocks that decode to more than *max_size* bytes."""
        self._decoder = Decoder(max_header_list_size=max_size)
        self._known: dict[bytes, RequestFields] = {}

    def decode(self, block: bytes) -> RequestFields:
        """Return the fields of *block*.

        :raises ProtocolError: it cannot be decoded.
        """
        known = self._known.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table
        before = _state(table)
        try:
            decoded = self._decoder.decode(block, raw=True)
        except (HPACKError, UnicodeDecodeError) as error:
            raise ProtocolError(9, "a header block cannot be decoded") from error
        fields = RequestFields([(bytes(name), bytes(value)) for name, value in decoded])
        is_same = _state(table) == before
        if not is_same or len(self._known) >= MAX_KNOWN:
            self._known.clear()  # an index means another field now
        if is_same:
            self._known[block] = fields
        return fields


def _state(table: Any) -> tuple[int, int, int]:
    """Return what differs after every change of the dynamic table."""
    entries = table.dynamic_entries
    return len(entries), id(entries[0]) if entries else 0, table.maxsize


def block_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a header block of literal fields, which no table has to remember."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(content: bytes) -> bytes:
    size = len(content)
    if size < 127:
        return bytes((size,)) + content
    size -= 127
    found = bytearray((127,))
    while size > 127:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    found.append(size)
    return bytes(found) + content

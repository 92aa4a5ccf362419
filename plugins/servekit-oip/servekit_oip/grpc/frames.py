# SPDX-License-Identifier: Apache-2.0
"""The frames of HTTP/2 (RFC 9113), and header blocks (RFC 7541), as far as a gRPC server needs."""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from hpack import Decoder, HPACKError

from servekit.frontend.transport import MAX_HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "CALM",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "FIRST_WINDOW",
    "FRAME",
    "GOAWAY",
    "HEAD",
    "HEADERS",
    "PING",
    "PREFACE",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW_UPDATE",
    "BlockDecoder",
    "ProtocolError",
    "RequestFields",
    "block_of",
    "frame",
    "unpadded",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x4, 0x8, 0x20
HEAD: Final = 9  #: bytes before the content of a frame
FIRST_WINDOW: Final = 65_535  #: bytes that each side may send before the other says otherwise
FRAME: Final = Struct(">HBBBI")
MAX_KNOWN: Final = 256  #: header blocks whose fields are remembered
MAX_REMEMBERED: Final = 4096  #: bytes of such a block and its fields
MAX_RESIZES: Final = 2  #: of the table, in one block (RFC 7541 4.2)
CALM, COMPRESSION_ERROR = 11, 9


class ProtocolError(Exception):
    """The client breaks the rules of HTTP/2; the connection ends with this code."""

    def __init__(self, code: int, text: str) -> None:
        """Keep the *code* of RFC 9113 7."""
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(content)
    return FRAME.pack(size >> 8, size & 0xFF, kind, flags, stream) + content


def unpadded(kind: int, flags: int, content: bytes) -> bytes:
    """Return the content of a DATA or HEADERS frame without padding and priority.

    :raises ProtocolError: there is more padding than content.
    """
    if not flags & (PADDED | HAS_PRIORITY):
        return content
    start, padding = 0, 0
    if flags & PADDED:
        start, padding = 1, content[0] if content else 0
    if flags & HAS_PRIORITY and kind == HEADERS:
        start += 5
    if start + padding > len(content):
        raise ProtocolError(1, "more padding than content")
    return content[start : len(content) - padding]


# ---------------------------------------------------------------- header blocks


#: metadata that is not passed on: it is about the connection, or about the message
DROPPED: Final = frozenset(
    b"accept accept-encoding connection content-encoding content-length content-type expect host"
    b" keep-alive proxy-authorization proxy-connection te trailer transfer-encoding upgrade"
    b" user-agent x-request-timeout-ms".split()
)
NAME: Final = re.compile(rb"[a-z0-9_.-]+")  #: metadata that are passed on
VALUE: Final = re.compile(rb"[ -~]*")
CONTENT_TYPE: Final = re.compile(rb"application/grpc(?:[+;].*)?", re.IGNORECASE)
PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
REQUIRED: Final = PSEUDO - {b":authority"}
#: names of fields as in HTTP (RFC 9110 5.1), without upper case; values without control characters
ANY_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
ANY_VALUE: Final = re.compile(rb"[^\0-\x08\n-\x1f\x7f]*")
PATH: Final = re.compile(rb"/[!-~]*")
#: they are about a connection of HTTP/1.1 (RFC 9113 8.2.2)
OF_CONNECTIONS: Final = frozenset(
    b"connection keep-alive proxy-connection transfer-encoding upgrade".split()
)


class RequestFields:
    """The header fields of calls; one object for all calls that have the same."""

    __slots__ = ("coding", "headers", "is_malformed", "path", "refusal", "timeout")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Look for what every call needs."""
        known = dict(pairs)
        self.path = known.get(b":path", b"")
        self.coding = known.get(b"grpc-encoding", b"")
        self.timeout = known.get(b"grpc-timeout", b"")
        self.is_malformed = is_malformed(pairs)
        #: the status of HTTP if the request is not a call; 0: it is one
        self.refusal = 0
        if known.get(b":method") != b"POST":
            self.refusal = 405
        elif not CONTENT_TYPE.fullmatch(known.get(b"content-type", b"")):
            self.refusal = 415
        #: the metadata that are header fields of the request for the front-end
        self.headers: dict[bytes, bytes] = {b"host": b"grpc"}
        for name, value in pairs:
            if name not in DROPPED and _is_passed_on(name, value):
                before = self.headers.get(name)
                self.headers[name] = value if before is None else before + b", " + value


def is_malformed(pairs: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the fields of a request break the rules of RFC 9113 8.2 and 8.3."""
    pseudo = [name for name, _ in pairs if name.startswith(b":")]
    given = set(pseudo)
    if len(given) != len(pseudo) or not REQUIRED <= given <= PSEUDO:
        return True
    known = dict(pairs[: len(pseudo)])
    if not given <= set(known) or not PATH.fullmatch(known[b":path"]):
        return True  # one follows other fields, or the path is not valid
    if known[b":scheme"] not in (b"http", b"https"):
        return True
    return any(
        not ANY_NAME.fullmatch(name)
        or not ANY_VALUE.fullmatch(value)
        or name in OF_CONNECTIONS
        or (name == b"te" and value != b"trailers")
        for name, value in pairs[len(pseudo) :]
    )


def _is_passed_on(name: bytes, value: bytes) -> bool:
    is_own = name.startswith(b"grpc-") or name.endswith(b"-bin")
    return not is_own and bool(NAME.fullmatch(name) and VALUE.fullmatch(value))


class BlockDecoder:
    """Decodes header blocks. Clients repeat them, so the fields of most are remembered."""

    def __init__(self, max_size: int) -> None:
        """Refuse blocks that have, or decode to, more than *max_size* bytes."""
        self._max_size = max_size
        self._decoder = Decoder(max_header_list_size=max_size)
        self._known: dict[bytes, RequestFields] = {}

    def decode(self, block: bytes) -> RequestFields:
        """Return the fields of *block*.

        :raises ProtocolError: it cannot be decoded, or is too large.
        """
        known = self._known.get(block)
        if known is not None:
            return known
        if len(block) > self._max_size:
            raise ProtocolError(CALM, "a header block is too large")
        check_fields(block)
        table = self._decoder.header_table
        before = _state(table)
        try:
            decoded = self._decoder.decode(block, raw=True)
        except (HPACKError, UnicodeDecodeError) as error:
            raise ProtocolError(COMPRESSION_ERROR, "a header block cannot be decoded") from error
        fields = RequestFields([(bytes(name), bytes(value)) for name, value in decoded])
        is_same = _state(table) == before
        if not is_same or len(self._known) >= MAX_KNOWN:
            self._known.clear()  # an index means another field now
        size = len(block) + sum(len(name) + len(value) for name, value in decoded)
        if is_same and size <= MAX_REMEMBERED:
            self._known[block] = fields
        return fields


def check_fields(block: bytes) -> None:
    """Count the fields of *block*, and the changes of the size of the table, without decoding it.

    Each takes a byte of the client and microseconds of ours.

    :raises ProtocolError: there are too many, or the last one is cut off.
    """
    at = fields = resizes = 0
    try:
        while at < len(block):
            first = block[at]
            if first & 0x80:
                at = _after_number(block, at, 0x7F)[1]
            elif first & 0xE0 == 0x20:
                at, resizes = _after_number(block, at, 0x1F)[1], resizes + 1
            else:
                index, at = _after_number(block, at, 0x3F if first & 0x40 else 0x0F)
                for _ in range(1 if index else 2):  # the value, and a name that is not in the table
                    size, at = _after_number(block, at, 0x7F)
                    at += size
            fields += 1
            if resizes > MAX_RESIZES or fields - resizes > MAX_HEADERS:
                raise ProtocolError(CALM, "a header block has too many fields")
    except IndexError:
        at = len(block) + 1
    if at > len(block):
        raise ProtocolError(COMPRESSION_ERROR, "a header block is cut off")


def _after_number(block: bytes, at: int, most: int) -> tuple[int, int]:
    """Return the number in a prefix of up to *most* (RFC 7541 5.1), and where it ends."""
    number, at, shift = block[at] & most, at + 1, 0
    if number < most:
        return number, at
    while True:
        byte, at = block[at], at + 1
        number += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, at
        if shift > 28:
            raise ProtocolError(COMPRESSION_ERROR, "a number in a header block is too large")


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

# SPDX-License-Identifier: Apache-2.0
"""One client of HTTP/2 that sends as much as the server takes of one kind. A process of its own.

``python -m tests.faults.flooding PORT KIND`` floods until its input ends, on a new connection
whenever the server ends the last. It prints ``flooding`` once it has begun, and at the end how
many connections there were, and the bytes sent, as JSON.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PIECE_BYTES = 65_536  #: sent at once
GET = b"\x82\x86\x01\x01a\x04\x05/ping"
POST = b"\x83\x86\x01\x01a\x04\x0d/work/predict"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
END_STREAM, END_HEADERS, PADDED = 1, 4, 8


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return the bytes of one frame."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big")
    return head + payload


def asked(block: bytes, flags: int = END_STREAM | END_HEADERS) -> Iterator[bytes]:
    """Yield requests with one header block."""
    return (frame(HEADERS, flags, stream_id, block) for stream_id in count(1, 2))


def again(piece: bytes, first: bytes = b"") -> Iterator[bytes]:
    """Yield *first* and then *piece*, for ever."""
    yield first
    while True:
        yield piece


def in_pairs(block: bytes, last: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield requests that do not end, each with what *last* says about its stream."""
    for stream_id in count(1, 2):
        yield frame(HEADERS, END_HEADERS, stream_id, block) + last(stream_id)


def answered_early() -> Iterator[bytes]:
    """Yield a body that goes on behind the answer, which was a refusal, and the stream's end."""
    yield frame(HEADERS, END_HEADERS, 1, POST + b"\x0f\x0d\x0a9999999999")
    yield frame(RST, 0, 1, bytes(4))
    yield from again(frame(DATA, 0, 1, b"x"))


def in_pieces() -> Iterator[bytes]:
    """Yield header blocks in frames of a few bytes."""
    for stream_id in count(1, 2):
        yield frame(HEADERS, END_STREAM, stream_id, GET)
        yield frame(CONTINUATION, 0, stream_id, b"\x00\x01a\x00") * 30
        yield frame(CONTINUATION, END_HEADERS, stream_id)


OPEN = frame(HEADERS, END_HEADERS, 1, POST)
SMALL_WINDOW, LARGE_WINDOW = b"\0\4\0\0\0\1", b"\0\4\0\1\0\0"
SHORT_FIELDS = b"".join(b"\0\1%c\1a" % name for name in b"abcdefghijklmnopqrstuvwxyz")
NEW_NAMES = b"".join(number.to_bytes(2, "big") + bytes(4) for number in range(0x100, 0xB00))

#: a kind of flood, and the frames of one connection
FLOODS: dict[str, Callable[[], Iterator[bytes]]] = {
    "requests": lambda: asked(GET),
    "HEADERS of 2,700 indexed fields": lambda: asked(GET + b"\x90" * 2700),
    "HEADERS of 3,900 one-letter fields": lambda: asked(GET + b"\x00\x01a\x00" * 3900),
    "HEADERS of 81 fields": lambda: asked(GET + SHORT_FIELDS * 3),
    "table size updates": lambda: asked(b"\x20" * 12_000 + GET),
    "Huffman codes": lambda: asked(GET + b"\x0f\x09\xff\x80\x7b" + b"\x1c" * 15_999),
    "HEADERS in small pieces": in_pieces,
    "malformed HEADERS": lambda: asked(GET + b"\x00\x01A\x00"),
    "DATA of one byte": lambda: again(frame(DATA, 0, 1, b"x"), OPEN),
    "DATA without data": lambda: again(frame(DATA, 0, 1), OPEN),
    "DATA that is padding": lambda: again(frame(DATA, PADDED, 1, b"\xff" + bytes(255)), OPEN),
    "DATA on answered streams": answered_early,
    "requests reset": lambda: in_pairs(GET, lambda n: frame(RST, 0, n, b"\0\0\0\x08")),
    "requests that end badly": lambda: in_pairs(GET, lambda n: frame(WINDOW, 0, n, bytes(4))),
    "PING": lambda: again(frame(PING, 0, 0, bytes(8))),
    "SETTINGS": lambda: again(frame(SETTINGS, 0, 0, SMALL_WINDOW + LARGE_WINDOW)),
    "SETTINGS of 2,560 entries": lambda: again(frame(SETTINGS, 0, 0, NEW_NAMES)),
    "PRIORITY": lambda: again(frame(PRIORITY, 0, 3, b"\0\0\0\0\1")),
    "WINDOW_UPDATE": lambda: again(frame(WINDOW, 0, 0, b"\0\0\0\1")),
    "RST_STREAM": lambda: again(frame(RST, 0, 1, bytes(4)), OPEN),
    "GOAWAY": lambda: again(frame(GOAWAY, 0, 0, bytes(8))),
    "frames of no known kind": lambda: again(frame(0xEE, 0, 0)),
}  # fmt: skip


class Flood:
    """What one client sends, and how often it had to begin anew."""

    def __init__(self, port: int, kind: str) -> None:
        """Send nothing yet."""
        self._port, self._make = port, FLOODS[kind]
        self.connections = self.sent = 0

    def run(self) -> None:
        """Flood until our input ends."""
        while not self._is_over():
            self.connections += 1
            with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as sock:
                sock.sendall(PREFACE + frame(SETTINGS, 0, 0))
                sock.setblocking(False)
                self._flood(sock)

    def _flood(self, sock: socket.socket) -> None:
        frames, unsent = self._make(), b""
        while not self._is_over():
            readable, writable, _ = select.select([sock], [sock], [], 0.1)
            if readable and not sock.recv(1 << 20):
                return
            if writable:
                unsent = unsent or piece_of(frames)
                count = sock.send(unsent)
                if not self.sent:
                    print("flooding", flush=True)
                self.sent, unsent = self.sent + count, unsent[count:]

    @staticmethod
    def _is_over() -> bool:
        return bool(select.select([sys.stdin], [], [], 0)[0])


def piece_of(frames: Iterator[bytes]) -> bytes:
    """Return as many of *frames* as are sent at once."""
    piece = bytearray()
    while len(piece) < PIECE_BYTES:
        piece += next(frames)
    return bytes(piece)


def main() -> None:
    """Flood until the input ends."""
    flood = Flood(int(sys.argv[1]), sys.argv[2])
    flood.run()
    print(json.dumps({"connections": flood.connections, "sent": flood.sent}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()

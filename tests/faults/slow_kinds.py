# SPDX-License-Identifier: Apache-2.0
"""How each kind of slow client behaves on its connection: what it says at once, and ever after."""

from __future__ import annotations

import select
import socket
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, Event, ResponseReceived, StreamReset
from h2.exceptions import ProtocolError

ANSWER_BYTES = 256 * 1024  #: more than the kernel keeps for a client of small segments
LARGEST_BYTES = 10 * 2**20  #: ``--max-body`` by default
LARGE_BYTES = 10_000_000  #: of an answer
NEARLY_ALL_BYTES = 9_800_000
CHUNK_BYTES = 65_536
CHUNKS = 144  #: 9 MiB
STREAMS = 15  #: of each connection
PENDING_BYTES = 1 << 18  #: of frames that are made before the kernel has taken them


class Kind(NamedTuple):
    """How one kind of slow client begins, and what it says now and then."""

    head: bytes
    drop: bytes = b""
    bulk: bytes = b""  #: said at once, behind the head
    every_s: float = 1.0  #: a drop
    reads: bool = True  #: else it takes the first bytes of its answer, and no more
    is_sudden: bool = False  #: all come at once, and again only after a while


class Client(Protocol):
    """One slow client and its connection."""

    sock: socket.socket
    filled: int  #: requests of which all but the drops is out
    is_over: bool  #: the connection is of no more use

    @property
    def events(self) -> int:
        """What it waits for, for ``epoll``."""

    def write(self) -> None:
        """Send what the kernel takes."""

    def drop(self) -> None:
        """Say the little that it says now and then."""

    def hear(self) -> list[str]:
        """Return how requests have ended: a status, ``reset`` or ``closed``."""


class Slow:
    """One request of HTTP/1.1."""

    def __init__(self, port: int, kind: Kind) -> None:
        """Connect, and begin to say what is said at once."""
        self.sock = connected(port, is_small=not kind.reads)
        self.filled = 0
        self.is_over = False
        self._kind = kind
        self._unsent = deque(memoryview(text) for text in (kind.head, kind.bulk) if text)
        self._is_deaf = False
        self.write()

    @property
    def events(self) -> int:
        """Whatever comes, and room for what is unsent; the deaf only hear the end."""
        wanted = select.EPOLLHUP if self._is_deaf else select.EPOLLIN | select.EPOLLRDHUP
        return wanted | (select.EPOLLOUT if self._unsent else 0)

    def write(self) -> None:
        """Send what the kernel takes."""
        while self._unsent:
            try:
                count = self.sock.send(self._unsent[0])
            except OSError:  # not now, or never more: ``hear`` will tell
                return
            self._unsent[0] = self._unsent[0][count:]
            if not self._unsent[0]:
                self._unsent.popleft()
                self.filled = int(not self._unsent)

    def drop(self) -> None:
        """Say the next drop, unless the last one is still unsent."""
        if self._kind.drop and not self._unsent:
            self._unsent.append(memoryview(self._kind.drop))
            self.write()

    def hear(self) -> list[str]:
        """Return how the request has ended, if it has."""
        said = b"" if self._is_deaf else receive(self.sock, 1024)
        if said is None:
            return []
        if said.startswith(b"HTTP/1.1 200") and not self._kind.reads:
            self._is_deaf = True  # it has begun to answer: read no more
            return []
        self.is_over = True
        return [said[9:12].decode("latin-1") or "closed"]


FIELDS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/work/predict"),
    (":authority", "slow"),
    ("content-type", "application/octet-stream"),
]


class SlowStreams:
    """A connection of HTTP/2 with requests that do not say how long they are."""

    def __init__(self, port: int, kind: Kind) -> None:
        """Connect, and begin ``STREAMS`` requests."""
        self.sock = connected(port)
        self.filled = 0
        self.is_over = False
        self._kind = kind
        self._protocol = H2Connection(H2Configuration(client_side=True))
        self._protocol.initiate_connection()
        self._left: dict[int, int] = {}  #: bytes of the bulk by stream
        self._unsent = b""
        self._begin_streams()

    @property
    def events(self) -> int:
        """Whatever comes, and room for what is unsent."""
        wanted = select.EPOLLIN | select.EPOLLRDHUP
        return wanted | (select.EPOLLOUT if self._unsent else 0)

    def _begin_streams(self) -> None:
        while len(self._left) < STREAMS:
            stream = self._protocol.get_next_available_stream_id()
            self._protocol.send_headers(stream, FIELDS)
            self._left[stream] = len(self._kind.bulk)
        self.write()

    def write(self) -> None:
        """Send what flow control and the kernel take."""
        self._fill()
        while self._unsent:
            try:
                count = self.sock.send(self._unsent)
            except OSError:  # not now, or never more: ``hear`` will tell
                return
            self._unsent = self._unsent[count:]
            self._fill()

    def _fill(self) -> None:
        for stream, left in self._left.items():
            while left and len(self._unsent) < PENDING_BYTES:
                size = min(left, self._room(stream))
                if not size:
                    break
                self._protocol.send_data(stream, self._kind.bulk[:size])
                self._unsent += self._protocol.data_to_send()
                left -= size
                self._left[stream] = left
                self.filled += not left
        self._unsent += self._protocol.data_to_send()

    def _room(self, stream: int) -> int:
        window = self._protocol.local_flow_control_window(stream)
        return min(window, self._protocol.max_outbound_frame_size)

    def drop(self) -> None:
        """Say the next drop on each stream, and begin anew those that have ended."""
        for stream, left in self._left.items():
            if not left and self._room(stream) > 0:
                self._protocol.send_data(stream, self._kind.drop)
        self._begin_streams()

    def hear(self) -> list[str]:
        """Return how requests have ended."""
        said = receive(self.sock, CHUNK_BYTES)
        if said is None:
            return []
        try:
            events = self._protocol.receive_data(said) if said else []
        except ProtocolError:
            events, said = [], b""
        self.is_over = not said or any(isinstance(each, ConnectionTerminated) for each in events)
        ends = [end for event in events for end in self._ended(event)]
        if not self.is_over:
            self.write()
        return ends + (["closed"] * len(self._left) if self.is_over else [])

    def _ended(self, event: Event) -> list[str]:
        if not isinstance(event, (ResponseReceived, StreamReset)):
            return []
        known: Any = event.stream_id
        if self._left.pop(known, None) is None:
            return []
        if isinstance(event, StreamReset):
            return ["reset"]
        with suppress(ProtocolError):  # the server may have reset it in the same breath
            self._protocol.reset_stream(known)
        return [dict(event.headers or ())[b":status"].decode()]


def connected(port: int, *, is_small: bool = False) -> socket.socket:
    """Return a non-blocking socket that connects; a *small* one takes little before it is read."""
    sock = socket.socket()
    if is_small:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", port))
    return sock


def receive(sock: socket.socket, size: int) -> bytes | None:
    """Return what is there, b"" if the connection is gone, ``None`` if nothing has come."""
    try:
        return sock.recv(size)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def asking(answer_bytes: int) -> bytes:
    """Return a whole request for so large an answer."""
    item = b'{"id": "slow", "seconds": 0, "answer_bytes": %d}' % answer_bytes
    return POST + JSON + b"Content-Length: %d\r\n\r\n" % len(item) + item


POST = b"POST /work/predict HTTP/1.1\r\nHost: slow\r\n"
JSON = b"Content-Type: application/json\r\n"
BYTES = b"Content-Type: application/octet-stream\r\n"
CHUNK = b"%x\r\n%b\r\n" % (CHUNK_BYTES, b"x" * CHUNK_BYTES)
KINDS = {
    "headers": Kind(POST + JSON, b"X-Slow: 1\r\n"),
    "bodies": Kind(POST + JSON + b"Content-Length: 100000\r\n\r\n[", b" "),
    "readers": Kind(asking(ANSWER_BYTES), reads=False),
    "uploads": Kind(
        POST + BYTES + b"Content-Length: %d\r\n\r\n" % LARGEST_BYTES,
        b"x",
        bulk=b"x" * NEARLY_ALL_BYTES,
        every_s=3.0,
        is_sudden=True,
    ),
    "chunked": Kind(
        POST + BYTES + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n",
        bulk=CHUNK * CHUNKS,
        every_s=3.0,
        is_sudden=True,
    ),
    "streams": Kind(b"", b"x", bulk=b"x" * CHUNK_BYTES * CHUNKS, every_s=3.0, is_sudden=True),
    "large_readers": Kind(asking(LARGE_BYTES), every_s=3.0, reads=False, is_sudden=True),
}


def begin(name: str, port: int) -> Client:
    """Return a new client of a kind; one of ``streams`` has several requests."""
    return (SlowStreams if name == "streams" else Slow)(port, KINDS[name])

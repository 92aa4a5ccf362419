# SPDX-License-Identifier: Apache-2.0
"""Many large requests at once from one thread, whose answers are counted and thrown away."""

import selectors
import socket
from collections import Counter
from time import monotonic

from tests.scale.flock import LENGTH

READ_BYTES = 1 << 18
CHUNK_BYTES = 65_536


class Transfer:
    """One request on a connection of its own, sent as fast as it is taken."""

    def __init__(self, port: int, wire: bytes) -> None:
        """Connect."""
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self.sock.setblocking(False)
        self.unsent = memoryview(wire)
        self._head = b""
        self._missing = -1  #: bytes of the answer; -1: its head is not whole
        self.status = 0  #: once the answer is whole; 0 for a connection that was lost

    def send(self) -> None:
        """Send what is taken now."""
        self.unsent = self.unsent[self.sock.send(self.unsent) :]

    def receive(self, buffer: bytearray) -> bool:
        """Read what has come; return whether nothing more will."""
        count = self.sock.recv_into(buffer)
        if self._missing >= 0:
            self._missing -= count
        else:
            self._head += buffer[:count]
            end = self._head.find(b"\r\n\r\n")
            length = LENGTH.search(self._head, 0, end + 2) if end >= 0 else None
            if length is not None:
                self._missing = end + 4 + int(length[1]) - len(self._head)
        if self._missing == 0:
            self.status = int(self._head[9:12])
        return not count or not self._missing


def transfer(port: int, wire: bytes, clients: int, limit_s: float) -> Counter[str]:
    """Send *wire* from so many clients at once; return how many had which status.

    What has no answer after *limit_s* is counted as ``late``, a lost connection as ``lost``.
    """
    seen, deadline, buffer = Counter[str](), monotonic() + limit_s, bytearray(READ_BYTES)
    with selectors.DefaultSelector() as selector:
        for _ in range(clients):
            each = Transfer(port, wire)
            selector.register(each.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, each)
        while selector.get_map() and monotonic() < deadline:
            for key, events in selector.select(0.1):
                if _is_over(selector, key.data, events, buffer):
                    selector.unregister(key.data.sock)
                    key.data.sock.close()
                    seen[str(key.data.status or "lost")] += 1
        for key in list(selector.get_map().values()):
            key.data.sock.close()
            seen["late"] += 1
    return seen


def _is_over(
    selector: selectors.BaseSelector, each: Transfer, events: int, buffer: bytearray
) -> bool:
    try:
        if events & selectors.EVENT_WRITE:
            each.send()
            if not each.unsent:
                selector.modify(each.sock, selectors.EVENT_READ, each)
        return bool(events & selectors.EVENT_READ) and each.receive(buffer)
    except OSError:
        return True


def chunked(path: str, size: int) -> bytes:
    """Return a POST of *size* bytes in chunks."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
    whole = b"%x\r\n%b\r\n" % (CHUNK_BYTES, b"x" * CHUNK_BYTES)
    rest = size % CHUNK_BYTES
    last = b"%x\r\n%b\r\n" % (rest, b"x" * rest) if rest else b""
    body = whole * (size // CHUNK_BYTES) + last
    return b"%bTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (head.encode(), body)

# SPDX-License-Identifier: Apache-2.0
"""Many connections of one client process, driven by one epoll."""

import re
import select
import socket
from collections import Counter
from time import monotonic

WAIT_S = 60.0
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)


class Flock:
    """*size* keep-alive connections to a port of this machine."""

    def __init__(self, port: int, size: int) -> None:
        """Connect them all; close with ``close``, or as a context manager."""
        self._sockets: dict[int, socket.socket] = {}
        self._poll = select.epoll()
        self._received: dict[int, bytes] = {}
        for _ in range(size):
            self._connect(port)

    def __enter__(self) -> "Flock":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._sockets)

    def close(self) -> None:
        """Close every connection."""
        for sock in self._sockets.values():
            sock.close()
        self._poll.close()
        self._sockets.clear()

    def send(self, request: bytes) -> None:
        """Send *request* on every connection; its answers are still to be read."""
        for sock in self._sockets.values():
            sock.sendall(request)

    def receive(self) -> Counter[int]:
        """Wait for one answer on every connection and return how many had which status.

        Connections that the server closed are counted as status 0.
        """
        waiting, seen = set(self._sockets), Counter[int]()
        deadline = monotonic() + WAIT_S
        while waiting:
            assert monotonic() < deadline, f"{len(waiting)} answers are missing, {seen} came"
            for descriptor, _ in self._poll.poll(1.0):
                status = self._read(descriptor)
                if status is not None and descriptor in waiting:
                    waiting.discard(descriptor)
                    seen[status] += 1
        return seen

    def ask(self, request: bytes, times: int = 1) -> Counter[int]:
        """Send *request* on every connection and wait for all answers, *times* times."""
        seen = Counter[int]()
        for _ in range(times):
            self.send(request)
            seen += self.receive()
        return seen

    def _connect(self, port: int) -> None:
        sock = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._sockets[sock.fileno()] = sock
        self._received[sock.fileno()] = b""
        self._poll.register(sock, select.EPOLLIN)

    def _read(self, descriptor: int) -> int | None:
        """Return the status of an answer that is whole now, 0 for an end."""
        data = self._sockets[descriptor].recv(65_536)
        if not data:
            self._poll.unregister(descriptor)
            self._sockets.pop(descriptor).close()
            return 0
        received = self._received[descriptor] + data
        end = received.find(b"\r\n\r\n")
        length = LENGTH.search(received, 0, end + 2) if end >= 0 else None
        if length is None or len(received) < end + 4 + int(length[1]):
            self._received[descriptor] = received
            return None
        self._received[descriptor] = b""
        return int(received[9:12])


def post(path: str, body: bytes = b'{"x":[1.5,2.5,3.5,4.5]}') -> bytes:
    """Return one POST of JSON."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)


def get(path: str) -> bytes:
    """Return one GET."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()

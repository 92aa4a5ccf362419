# SPDX-License-Identifier: Apache-2.0
"""Clients that take for ever: slow headers, slow bodies, slow readers. A process of its own.

``python -m tests.faults.slow_clients PORT SECONDS headers=900 bodies=900 readers=200`` keeps that
many open for SECONDS, a new one for each that the server ends; then it prints ``stopped`` and only
holds on to what is open. At the end of its input it prints what it saw, as JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import sys
from collections import Counter
from heapq import heappop, heappush
from time import monotonic
from typing import NamedTuple

EVERY_S = 1.0  #: a slow client sends so seldom
OPENING_PART = 0.25  #: of the time, within which the first ones come
ANSWER_BYTES = 256 * 1024  #: more than the kernel keeps for a client of small segments


class Kind(NamedTuple):
    """How one kind of slow client begins, and what it says now and then."""

    head: bytes
    drop: bytes


ITEM = b'{"id": "slow", "seconds": 0, "answer_bytes": %d}' % ANSWER_BYTES
POST = b"POST /work/predict HTTP/1.1\r\nHost: slow\r\nContent-Type: application/json\r\n"
KINDS = {
    "headers": Kind(POST, b"X-Slow: 1\r\n"),
    "bodies": Kind(POST + b"Content-Length: 100000\r\n\r\n[", b" "),
    "readers": Kind(POST + b"Content-Length: %d\r\n\r\n" % len(ITEM) + ITEM, b""),
}


class Crowd:
    """All of them, on one epoll."""

    def __init__(self, port: int, counts: dict[str, int], opening_s: float) -> None:
        """Open nothing yet; all come within *opening_s*."""
        self._port = port
        self._epoll = select.epoll()
        self._open: dict[int, tuple[str, socket.socket, float]] = {}
        self._due: list[tuple[float, int, str, socket.socket | None]] = []
        self._turn = 0
        self.statuses: dict[str, Counter[str]] = {name: Counter() for name in counts}
        self.longest_s = dict.fromkeys(counts, 0.0)
        chance = random.Random(6)
        for name, count in counts.items():
            for _ in range(count):
                self._later(chance.random() * opening_s, name, None)

    def run(self, until: float, *, is_sending: bool) -> None:
        """Be slow until that moment; without sending, only hold what is open."""
        while (now := monotonic()) < until:
            while is_sending and self._due and self._due[0][0] <= now:
                _, _, name, sock = heappop(self._due)
                if sock is None:
                    self._begin(name)
                else:
                    self._drop(name, sock)
            for fd, _ in self._epoll.poll(0.02):
                self._listen(fd, is_sending=is_sending)

    def _later(self, seconds: float, name: str, sock: socket.socket | None) -> None:
        self._turn += 1
        heappush(self._due, (monotonic() + seconds, self._turn, name, sock))

    def _begin(self, name: str) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", self._port))
        sock.setblocking(False)
        self._open[sock.fileno()] = (name, sock, monotonic())
        self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        self._say(sock, KINDS[name].head)
        self._later(EVERY_S, name, sock)

    def _drop(self, name: str, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._say(sock, KINDS[name].drop)
            self._later(EVERY_S, name, sock)

    def _say(self, sock: socket.socket, text: bytes) -> None:
        try:
            sock.send(text) if text else None
        except OSError:
            self._listen(sock.fileno(), is_sending=True)

    def _listen(self, fd: int, *, is_sending: bool) -> None:
        if fd not in self._open:
            return
        name, sock, began = self._open[fd]
        said = receive(sock)
        if said.startswith(b"HTTP/1.1 200") and name == "readers":
            self._epoll.modify(fd, select.EPOLLHUP)  # it has begun to answer: read no more
            return
        self.statuses[name][said[9:12].decode("latin-1") or "closed"] += 1
        self.longest_s[name] = max(self.longest_s[name], monotonic() - began)
        del self._open[fd]
        sock.close()
        if is_sending:
            self._later(0, name, None)


def receive(sock: socket.socket) -> bytes:
    """Return what is there, a kilobyte at most; b"" if the connection is gone."""
    try:
        return sock.recv(1024)
    except OSError:
        return b""


def main() -> None:
    """Be a crowd until the input ends."""
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    counts = {name: int(count) for name, _, count in (arg.partition("=") for arg in sys.argv[3:])}
    crowd = Crowd(port, counts, seconds * OPENING_PART)
    crowd.run(monotonic() + seconds, is_sending=True)
    print("stopped", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        crowd.run(monotonic() + 0.1, is_sending=False)
    print(json.dumps({"statuses": crowd.statuses, "longest_s": crowd.longest_s}), flush=True)
    os._exit(0)  # closing thousands of sockets one by one takes a while


if __name__ == "__main__":
    main()

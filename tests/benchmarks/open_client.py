# SPDX-License-Identifier: Apache-2.0
"""An HTTP client that sends at fixed moments, whether or not answers have come.

One thread, one epoll, keep-alive connections. A request has a moment at which it is due. If no
connection is free then, it waits, and the wait counts: latency runs from the moment it was due,
never from the moment it was sent. So a server that stalls cannot hide the requests that it kept
from being asked (no coordinated omission).
"""

import contextlib
import ctypes
import gc
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Self

from tests.benchmarks.answers import HOST, Request
from tests.benchmarks.errors import WrongAnswer
from tests.benchmarks.http_answer import body_of, is_whole

PR_SET_TIMERSLACK: Final = 29
READ_BYTES: Final = 1 << 16
LAST_S: Final = 10.0  #: how long answers may take after the last request was due
OK: Final = b"HTTP/1.1 200 "


@dataclass(slots=True)
class Outcome:
    """What one run of requests saw."""

    latencies_s: list[float] = field(default_factory=list)  #: from due to answered; all of them
    late_s: list[float] = field(default_factory=list)  #: due and a connection free, yet not sent
    errors: int = 0  #: answers that were wrong or never came; their latency counts too


class Connection:
    """One keep-alive connection with at most one request on it."""

    __slots__ = ("due", "received", "sock")

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection((HOST, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self.received = b""


class OpenClient:
    """A fixed number of connections to one server, all asking one request."""

    def __init__(self, port: int, request: Request, answer: bytes, connections: int) -> None:
        """Connect. *answer* is a right body; other bodies are read more slowly."""
        self._port, self._request, self._answer = port, request, answer
        self._wire = to_wire(port, request)
        self._epoll = select.epoll()
        self._by_fd: dict[int, Connection] = {}
        self._free = [self._connect() for _ in range(connections)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._by_fd.values():
            connection.sock.close()
        self._epoll.close()

    def capacity(self, seconds: float) -> float:
        """Return the requests/s of this client with every connection always busy."""
        outcome = Outcome()
        with _steady():
            end = monotonic() + seconds
            while (now := monotonic()) < end:
                while self._free:
                    self._send(now)
                self._wait(end - now, outcome)
            self._finish(outcome)
        if outcome.errors:
            raise WrongAnswer(f"{outcome.errors} wrong answers while looking for the capacity")
        return len(outcome.latencies_s) / seconds

    def run(self, rate: float, seconds: float) -> Outcome:
        """Send *rate* requests/s for *seconds*, evenly spaced; wait for the last answers."""
        outcome = Outcome()
        with _steady():
            self._run(1 / rate, round(rate * seconds), outcome)
            self._finish(outcome)
        return outcome

    def _run(self, interval: float, count: int, outcome: Outcome) -> None:
        begin = freed = monotonic()  #: when a connection was first free again
        last = begin + interval * count + LAST_S
        sent = 0
        while sent < count:
            now, due = monotonic(), begin + sent * interval
            if now > last:
                self._give_up(begin, interval, range(sent, count), outcome)
                return
            if self._free and due <= now:
                outcome.late_s.append(now - max(due, freed))
                self._send(due)
                sent += 1
                continue
            had_free = bool(self._free)
            self._wait(due - now if had_free else last - now, outcome)
            if not had_free and self._free:
                freed = monotonic()

    def _give_up(self, begin: float, interval: float, unsent: range, outcome: Outcome) -> None:
        """Count what could not even be sent."""
        now = monotonic()
        outcome.errors += len(unsent)
        outcome.latencies_s += [now - begin - number * interval for number in unsent]

    def _send(self, due: float) -> None:
        connection = self._free.pop()
        connection.due = due
        connection.sock.sendall(self._wire)

    def _wait(self, seconds: float, outcome: Outcome) -> None:
        """Wait for answers; ``select`` knows microseconds, epoll rounds up to milliseconds."""
        if seconds > 0:
            select.select([self._epoll], [], [], seconds)
        for fd, _ in self._epoll.poll(0):
            self._receive(self._by_fd[fd], outcome)

    def _receive(self, connection: Connection, outcome: Outcome) -> None:
        try:
            data = connection.sock.recv(READ_BYTES)
        except ConnectionResetError:
            data = b""
        if (
            not data and connection in self._free
        ):  # closed by the server while nothing was asked on it
            self._free.remove(connection)
            self._free.append(self._replace(connection))
            return
        answer = connection.received + data if connection.received else data
        is_right = answer.endswith(self._answer) and answer.startswith(OK)
        if not is_right:
            if data and not is_whole(answer):
                connection.received = answer
                return
            is_right = answer.startswith(OK) and self._request.is_right(body_of(answer))
        outcome.latencies_s.append(monotonic() - connection.due)
        outcome.errors += not is_right
        connection.received = b""
        self._free.append(connection if data else self._replace(connection))

    def _finish(self, outcome: Outcome) -> None:
        """Wait for what is on the way; what does not come counts as an error."""
        end = monotonic() + LAST_S
        while len(self._free) < len(self._by_fd) and (now := monotonic()) < end:
            self._wait(end - now, outcome)
        for connection in set(self._by_fd.values()) - set(self._free):
            outcome.errors += 1
            outcome.latencies_s.append(monotonic() - connection.due)
            self._free.append(self._replace(connection))

    def _connect(self) -> Connection:
        connection = Connection(self._port)
        self._by_fd[connection.sock.fileno()] = connection
        self._epoll.register(connection.sock, select.EPOLLIN)
        return connection

    def _replace(self, connection: Connection) -> Connection:
        del self._by_fd[connection.sock.fileno()]
        connection.sock.close()  # leaves the epoll by itself
        return self._connect()


def to_wire(port: int, request: Request) -> bytes:
    """Return the bytes of the request."""
    head = (
        f"POST {request.path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n"
        f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n"
    )
    more = "".join(f"{name}: {text}\r\n" for name, text in request.headers)
    return f"{head}{more}\r\n".encode() + request.body


@contextlib.contextmanager
def _steady() -> Iterator[None]:
    """Keep the collector and the kernel's 50 us of timer slack out of the figures."""
    prctl = ctypes.CDLL(None).prctl
    gc.disable()
    prctl(PR_SET_TIMERSLACK, 1)
    try:
        yield
    finally:
        prctl(PR_SET_TIMERSLACK, 0)  # 0 stands for the default
        gc.enable()

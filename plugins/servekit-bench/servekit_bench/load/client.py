# SPDX-License-Identifier: Apache-2.0
"""Keep-alive connections to one server, each with at most one request on it.

Most answers are short and arrive in one piece: one ``recv``, three searches for bytes. All others
go to ``ParsedAnswer``. Runs in: a load generator.
"""

import select
import ssl
from collections import deque
from itertools import cycle
from select import EPOLLIN, EPOLLOUT
from time import monotonic
from typing import Final

from servekit_bench.load.answers import HttpParserError, ParsedAnswer
from servekit_bench.load.connection import LoadConnection, connect, kind_of, tls_context
from servekit_bench.load.plan import Target
from servekit_bench.load.records import Recorder

__all__ = ["LoadClient"]

READ_BYTES: Final = 1 << 16  # more would be mapped and unmapped by each recv
PAUSE_S: Final = 0.1  #: before a connection that failed is opened again
HEAD_END: Final = b"\r\n\r\n"
OK: Final = b"HTTP/1.1 200"
CLOSE: Final = b": close\r\n"
LENGTHS: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
WAITS: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LoadClient:
    """Sends and receives; the loops decide when."""

    def __init__(self, target: Target, connections: int, timeout_s: float) -> None:
        """Open *connections*.

        :raises OSError: the server cannot be reached.
        """
        self.epoll = select.epoll()
        self.recorder = Recorder()
        self.free: deque[LoadConnection] = deque()  #: those that wait for a request
        self.by_fd: dict[int, LoadConnection] = {}
        self._target, self._timeout_s = target, timeout_s
        self._tls = tls_context(target.tls) if target.tls else None
        self._wires = cycle([r.to_wire(target.name) for r in target.requests])
        self._length = LENGTHS[0]  #: as this server writes it
        self._broken: list[float] = []  #: when to open connections again
        for _ in range(connections):
            self._open(is_waiting=True)

    # ------------------------------------------------------------ the hot path

    def send(self, connection: LoadConnection, due: float) -> None:
        """Send the next request, which should have been sent at *due*."""
        wire = next(self._wires)
        connection.due, connection.is_busy = due, True
        self.recorder.sent_bytes += len(wire)
        try:
            sent = connection.send(wire)
        except WAITS:
            sent = 0
        except OSError:  # reading tells what happened
            return
        if sent < len(wire):
            connection.rest = memoryview(wire)[sent:]
            self.epoll.modify(connection.sock, EPOLLIN | EPOLLOUT)

    def receive(self, connection: LoadConnection, mask: int) -> bool:
        """Read what has come; return whether the request was answered and the next can be sent."""
        if mask & EPOLLOUT and connection.rest is not None:
            self._send_rest(connection)
            if mask == EPOLLOUT:
                return False
        try:
            data = connection.recv(READ_BYTES)
        except WAITS:
            return False
        except OSError as error:
            return self._lose(connection, error)
        is_waiting = connection.is_busy and connection.rest is None  # for its whole answer
        if connection.answer is None and is_waiting and data.startswith(OK):
            head = data.find(HEAD_END)
            at = data.find(self._length, 0, head) + len(self._length)
            if (
                at >= len(self._length)
                and len(data) == head + 4 + int(data[at : data.find(b"\r", at)])
                and data.find(CLOSE, 0, head + 2) < 0
            ):
                recorder = self.recorder
                recorder.received_bytes += len(data)
                recorder.answered += 1
                if connection.due >= recorder.begin_s:
                    recorder.latencies_s.append(monotonic() - connection.due)
                    recorder.plain += 1
                connection.is_busy = False
                return True
        return self._receive_slowly(connection, data)

    # ------------------------------------------------------------ everything else

    def look_after(self, now: float) -> None:
        """Give up requests that wait too long, and open failed connections again."""
        late = now - self._timeout_s
        for connection in list(self.by_fd.values()):
            if connection.is_busy and connection.due < late:
                self._fail(connection, "timeout", f"no answer within {self._timeout_s:g} s")
                self._replace(connection)
        due = [at for at in self._broken if at <= now]
        self._broken = [at for at in self._broken if at > now]
        for _ in due:
            self._open()

    def give_up(self, dues: list[float]) -> None:
        """Count the requests that are still unanswered at the end, and those never sent (*dues*).

        The time that they have waited is counted as a latency: it would have been longer.
        """
        dues += [each.due for each in self.by_fd.values() if each.is_busy]
        now, recorder = monotonic(), self.recorder
        counted = [now - due for due in dues if due >= recorder.begin_s]
        recorder.unanswered += len(counted)
        recorder.latencies_s.extend(counted)

    def expire(self, due: float) -> None:
        """Count a request that found no free connection until its timeout."""
        if due >= self.recorder.begin_s:
            self.recorder.latencies_s.append(self._timeout_s)
            message = f"no connection was free within {self._timeout_s:g} s"
            self.recorder.fail("timeout", message)

    @property
    def is_busy(self) -> bool:
        """Whether a request is on its way."""
        return any(each.is_busy for each in self.by_fd.values())

    def close(self) -> None:
        """Close all connections."""
        for connection in self.by_fd.values():
            connection.sock.close()
        self.epoll.close()

    def _send_rest(self, connection: LoadConnection) -> None:
        assert connection.rest is not None
        try:
            connection.rest = connection.rest[connection.send(connection.rest) :]
        except WAITS:
            return
        except OSError:  # reading tells what happened
            connection.rest = None
        if not connection.rest:
            connection.rest = None
            self.epoll.modify(connection.sock, EPOLLIN)

    def _receive_slowly(self, connection: LoadConnection, data: bytes) -> bool:
        """Pass all that has come on to the parser."""
        if not data and not connection.is_busy:
            self._replace(connection)  # the server closed it while nothing was asked
            return False
        if connection.answer is None:
            connection.answer = ParsedAnswer()
            self._learn(data)
        answer = connection.answer
        try:
            while data:
                answer.feed(data, monotonic())
                if answer.is_complete:
                    return self._finish(connection, answer)
                data = connection.recv(READ_BYTES)
        except WAITS:
            return False
        except (OSError, HttpParserError) as error:
            return self._lose(connection, error)
        if answer.end():
            return self._finish(connection, answer)
        return self._lose(connection, ConnectionAbortedError("closed before the answer was whole"))

    def _learn(self, data: bytes) -> None:
        """Notice how this server writes the header that the fast way looks for."""
        for each in LENGTHS:
            if data.find(each, 0, data.find(HEAD_END)) >= 0:
                self._length = each

    def _finish(self, connection: LoadConnection, answer: ParsedAnswer) -> bool:
        now, recorder, status = monotonic(), self.recorder, answer.status
        connection.answer, connection.is_busy = None, False
        recorder.received_bytes += answer.received
        is_good = 200 <= status < 300 and not answer.error
        recorder.answered += is_good
        if connection.due >= recorder.begin_s:
            recorder.count(status)
            if is_good:
                recorder.latencies_s.append(now - connection.due)
                self._note_outputs(connection.due, answer)
            else:
                kind = "stream" if answer.error else str(status)
                recorder.fail(kind, answer.error or answer.text.decode(errors="replace"))
        if answer.is_kept_alive and answer.is_complete and not connection.rest:
            return True
        self._replace(connection)
        return False

    def _note_outputs(self, due: float, answer: ParsedAnswer) -> None:
        if answer.outputs:
            streams = self.recorder.streams
            streams.outputs += answer.outputs
            streams.first_outputs_s.append(answer.first_s - due)
            streams.gaps_s.extend(answer.gaps_s)

    def _lose(self, connection: LoadConnection, error: Exception) -> bool:
        """Count the request of a connection that failed, and open another one in a while."""
        if connection.is_busy:
            self._fail(connection, kind_of(error), str(error) or type(error).__name__)
        if isinstance(error, ConnectionRefusedError):
            self._drop(connection)
            self._broken.append(monotonic() + PAUSE_S)
        else:
            self._replace(connection)
        return False

    def _fail(self, connection: LoadConnection, kind: str, message: str) -> None:
        connection.is_busy = False
        if connection.due >= self.recorder.begin_s:
            self.recorder.fail(kind, message)
            if kind == "timeout":
                self.recorder.latencies_s.append(monotonic() - connection.due)

    def _replace(self, connection: LoadConnection) -> None:
        self.recorder.reconnects += 1
        self._drop(connection)
        self._open()

    def _drop(self, connection: LoadConnection) -> None:
        del self.by_fd[connection.sock.fileno()]
        if not connection.is_busy and connection in self.free:
            self.free.remove(connection)
        connection.sock.close()  # leaves the epoll with it

    def _open(self, *, is_waiting: bool = False) -> None:
        """Open a connection; the next request can be sent at once."""
        try:
            sock = connect(self._target, self._tls, self._timeout_s, is_waiting=is_waiting)
        except OSError:
            if is_waiting:
                raise
            self._broken.append(monotonic() + PAUSE_S)
            return
        connection = LoadConnection(sock)
        self.by_fd[sock.fileno()] = connection
        self.epoll.register(sock, EPOLLIN)
        self.free.append(connection)

# SPDX-License-Identifier: Apache-2.0
"""A truthful client: requests at fixed moments, and a line for each, whatever becomes of it.

One thread, one epoll. A request is due at its moment; if no connection is free then, it waits,
and the wait counts: a server that stalls cannot hide the requests that it kept from being sent
(no coordinated omission). Bounded in count by the requests and in time by ``timeout_s``.
"""

from __future__ import annotations

import os
import select
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults.connection import Connection
from tests.faults.ledger import Ledger, Line
from tests.faults.requests import always

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.faults.requests import Shot

LONGEST_WAIT_S = 0.05  #: between two looks at the clock
POLL_S = 0.005  #: between two looks at what an action or a request waits for
TIMEOUT_S = 60.0  #: a request without an answer is lost: a hang, on however slow a machine


@dataclass(frozen=True, slots=True)
class Action:
    """Something that is done to the server while requests are under way."""

    at: float  #: seconds after the start of the run
    do: Callable[[], object]
    once: Callable[[Ledger], bool] = always  #: it is not done before this holds


class Client:
    """Keep-alive connections to one server, and fresh ones where a request wants its own."""

    def __init__(self, port: int, connections: int, timeout_s: float = TIMEOUT_S) -> None:
        """Connect nothing yet; at most *connections* are kept alive."""
        self._port = port
        self._connections = connections
        self._timeout_s = timeout_s
        self._epoll = select.epoll()
        self._by_fd: dict[int, Connection] = {}
        self._free: list[Connection] = []
        self._kept = 0
        self._waiting: deque[tuple[Shot, Line]] = deque()
        self._overdue: list[tuple[float, int, Connection, Line, str]] = []

    def run(
        self,
        shots: Iterable[Shot],
        actions: Iterable[Action] = (),
        until: Callable[[Ledger], bool] = lambda _ledger: False,
    ) -> Ledger:
        """Send every shot at its moment, do every action at its; return when all has ended.

        :param until: once it holds, nothing more is sent.
        """
        todo = deque(sorted(shots, key=lambda shot: shot.at))
        deeds = deque(sorted(actions, key=lambda action: action.at))
        ledger, self.begin = Ledger(), monotonic()
        try:
            while todo or deeds or self._waiting or self._busy:
                now = monotonic()
                while deeds and self.begin + deeds[0].at <= now and deeds[0].once(ledger):
                    deeds.popleft().do()
                while todo and self.begin + todo[0].at <= now and todo[0].once(ledger):
                    self._take(todo.popleft(), ledger)
                if until(ledger):
                    todo.clear()
                self._look_at_clock(monotonic())
                self._wait(self._next(todo, deeds, ledger))
        finally:
            self._close()
        return ledger

    @property
    def _busy(self) -> bool:
        return len(self._by_fd) > len(self._free)

    def _next(self, todo: deque[Shot], deeds: deque[Action], ledger: Ledger) -> float:
        """Return how long nothing is due."""
        heads = [queue[0] for queue in (todo, deeds) if queue]
        moments = [self._moment(head, ledger) for head in heads]
        moments += [self._overdue[0][0]] if self._overdue else []
        return max(0.0, min([*(moment - monotonic() for moment in moments), LONGEST_WAIT_S]))

    def _moment(self, head: Shot | Action, ledger: Ledger) -> float:
        """Return when it is due, or when to look again at what it waits for."""
        moment, now = self.begin + head.at, monotonic()
        return moment if moment > now or head.once(ledger) else now + POLL_S

    # ------------------------------------------------------------ a request's way

    def _take(self, shot: Shot, ledger: Ledger) -> None:
        line = Line(shot.id, shot.kind, due=self.begin + shot.at)
        ledger.lines.append(line)
        if shot.is_fresh:
            self._send(self._connect(), shot, line)
        else:
            self._waiting.append((shot, line))
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        while self._waiting:
            if self._free:
                connection = self._free.pop()
                if connection.is_stale:
                    self._drop(connection)
                    continue
            elif self._kept < self._connections:
                self._kept += 1
                connection = self._connect()
            else:
                return
            self._send(connection, *self._waiting.popleft())

    def _connect(self) -> Connection:
        connection = Connection(self._port)
        self._by_fd[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        return connection

    def _send(self, connection: Connection, shot: Shot, line: Line) -> None:
        connection.carry(shot, line)
        if shot.leave_after_s is None:
            moment, end = line.due + self._timeout_s, "timeout"
        else:
            moment, end = max(monotonic(), line.due) + shot.leave_after_s, "left"
        heappush(self._overdue, (moment, id(line), connection, line, end))
        self._write(connection)

    def _write(self, connection: Connection) -> None:
        try:
            connection.write()
        except OSError:  # it is not connected (yet), or reset; an answer may still be read
            if connection.read():
                self._finish(connection)
                return
        watched = select.EPOLLIN | (select.EPOLLOUT if connection.unsent else 0)
        self._epoll.modify(connection.fd, watched)

    # ------------------------------------------------------------ events

    def _wait(self, seconds: float) -> None:
        """Wait for events; ``select`` knows microseconds, epoll rounds up to milliseconds."""
        if seconds > 0:
            select.select([self._epoll], [], [], seconds)
        for fd, events in self._epoll.poll(0):
            connection = self._by_fd.get(fd)
            if connection is not None:
                self._on_event(connection, events)

    def _on_event(self, connection: Connection, events: int) -> None:
        if events & ~select.EPOLLOUT and connection.read():
            self._finish(connection)
        elif connection.is_spent:
            self._drop(connection)
        elif events & select.EPOLLOUT and connection.unsent:
            self._write(connection)

    def _finish(self, connection: Connection) -> None:
        """The request on it has ended; the next one may have the connection."""
        assert connection.shot is not None
        is_fresh = connection.shot.is_fresh
        connection.line = connection.shot = None
        if connection.is_spent or is_fresh:
            self._drop(connection, was_kept=not is_fresh)
        else:
            self._free.append(connection)
        self._serve_waiting()

    def _drop(self, connection: Connection, *, was_kept: bool = True) -> None:
        if connection in self._free:
            self._free.remove(connection)
        del self._by_fd[connection.fd]
        connection.sock.close()  # leaves the epoll by itself
        self._kept -= was_kept

    def _look_at_clock(self, now: float) -> None:
        """End what has waited too long, or whose client leaves."""
        while self._overdue and self._overdue[0][0] <= now:
            _, _, connection, line, end = heappop(self._overdue)
            if connection.line is line:
                connection.give_up(end)
                self._finish(connection)
        while self._waiting and self._waiting[0][1].due + self._timeout_s <= now:
            line = self._waiting.popleft()[1]
            line.end, line.ended = "timeout", now

    def _close(self) -> None:
        for connection in list(self._by_fd.values()):
            connection.sock.close()
        self._by_fd.clear()
        self._free.clear()
        self._epoll.close()


def pin(core: int) -> None:
    """Keep this process on one core; the server then has the others to itself."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})

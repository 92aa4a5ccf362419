# SPDX-License-Identifier: Apache-2.0
"""When requests are sent: as soon as a connection is free, or at fixed moments.

Runs in: a load generator.
"""

import random
import select
from abc import ABC, abstractmethod
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Final

from servekit_bench.load.client import LoadClient
from servekit_bench.load.plan import ClosedLoop, LoadPlan, OpenLoop

__all__ = ["ClosedLoopRun", "LoadRun", "OpenLoopRun", "create_run"]

POLL_S: Final = 0.1  #: how often to check timeouts
MARKS: Final = 60  #: points of the plots over time, at most
STOPPED_DRAIN_S: Final = 1.0  #: how long the last answers are waited for after Ctrl-C


class LoadRun(ABC):
    """One run: warm-up, measurement, and the wait for the last answers."""

    def __init__(self, client: LoadClient, plan: LoadPlan, control_fd: int) -> None:
        """Prepare; whatever happens at *control_fd* ends the run early."""
        self._client, self._plan = client, plan
        self.was_stopped = False
        self._control_fd = control_fd
        self._end_s = float("inf")  #: the end of the measurement
        self._next_look_s = 0.0
        self._mark_every_s = max(POLL_S, plan.duration_s / MARKS)
        self._next_mark_s = float("inf")
        client.epoll.register(control_fd, select.EPOLLIN)

    def run(self, begin_s: float) -> None:
        """Run from *begin_s* (monotonic) on."""
        recorder, plan = self._client.recorder, self._plan
        measured_from = begin_s + plan.warmup_s
        self._end_s = measured_from + plan.duration_s
        sleep(max(0.0, begin_s - monotonic()))
        self._until(measured_from)
        recorder.begin(measured_from)
        self._next_mark_s = measured_from + self._mark_every_s
        self._until(self._end_s)
        recorder.end()
        self._end_s = min(self._end_s, monotonic())
        self._next_mark_s = float("inf")
        self._drain(monotonic() + (STOPPED_DRAIN_S if self.was_stopped else plan.drain_s))
        self._client.give_up(self._unsent())

    def _until(self, end_s: float) -> None:
        while (now := monotonic()) < end_s and not self.was_stopped:
            self._turn(min(end_s - now, POLL_S))
            self._look_after(now)

    def _drain(self, end_s: float) -> None:
        while (now := monotonic()) < end_s and (self._client.is_busy or self._has_unsent()):
            self._drain_turn(min(end_s - now, POLL_S))
            self._look_after(now)

    def _look_after(self, now: float) -> None:
        if now >= self._next_look_s:
            self._next_look_s = now + POLL_S
            self._client.look_after(now)
        if now >= self._next_mark_s:
            self._next_mark_s += self._mark_every_s
            self._client.recorder.mark(now)

    def _stop(self, fd: int) -> None:
        """Take an event that belongs to no connection: perhaps the order to end."""
        if fd == self._control_fd:
            self.was_stopped = True
            self._client.epoll.unregister(fd)

    @abstractmethod
    def _turn(self, wait_s: float) -> None:
        """Send the requests that are due, and read answers; wait at most *wait_s*."""

    @abstractmethod
    def _drain_turn(self, wait_s: float) -> None:
        """Do the same for requests that were due before the end."""

    def _has_unsent(self) -> bool:
        """Return whether requests were due before the end and have not been sent."""
        return False

    def _unsent(self) -> list[float]:
        """Return when the requests were due that have not been sent."""
        return []


class ClosedLoopRun(LoadRun):
    """Each connection sends its next request when the last one is answered."""

    def _turn(self, wait_s: float) -> None:
        client = self._client
        while client.free:
            client.send(client.free.popleft(), monotonic())
        by_fd, receive, send = client.by_fd, client.receive, client.send
        for fd, mask in client.epoll.poll(wait_s):
            connection = by_fd.get(fd)
            if connection is None:
                self._stop(fd)
            elif receive(connection, mask):
                send(connection, monotonic())

    def _drain_turn(self, wait_s: float) -> None:
        client = self._client
        for fd, mask in client.epoll.poll(wait_s):
            connection = client.by_fd.get(fd)
            if connection is None:
                self._stop(fd)
            elif client.receive(connection, mask):
                client.free.append(connection)


class OpenLoopRun(LoadRun):
    """Requests at the moments of a list, whether or not connections are free."""

    def __init__(self, client: LoadClient, plan: LoadPlan, control_fd: int) -> None:
        super().__init__(client, plan, control_fd)
        assert isinstance(plan.load, OpenLoop)
        self._load = plan.load
        self._arrivals: Iterator[float] = iter(())
        self._due_s = 0.0  #: when the next request is due

    def run(self, begin_s: float) -> None:
        self._arrivals = arrivals(self._load, begin_s, self._plan.number, self._plan.processes)
        self._due_s = next(self._arrivals)
        super().run(begin_s)

    def _turn(self, wait_s: float) -> None:
        self._send_due()
        if self._client.free:
            wait_s = min(wait_s, self._due_s - monotonic())
        self._receive(wait_s)

    def _drain_turn(self, wait_s: float) -> None:
        self._send_due()
        self._receive(wait_s)

    def _send_due(self) -> None:
        client, end_s, now = self._client, self._end_s, monotonic()
        free, late_s = client.free, client.recorder.late_s
        while self._due_s <= now and self._due_s < end_s and free:
            connection = free.popleft()
            late_s.append(now - max(self._due_s, connection.freed))
            client.send(connection, self._due_s)
            self._due_s = next(self._arrivals)
            now = monotonic()

    def _receive(self, wait_s: float) -> None:
        """Wait for answers: ``select`` knows microseconds, epoll rounds up to milliseconds."""
        client = self._client
        if wait_s > 0:
            select.select([client.epoll], [], [], wait_s)
        for fd, mask in client.epoll.poll(0):
            connection = client.by_fd.get(fd)
            if connection is None:
                self._stop(fd)
            elif client.receive(connection, mask):
                connection.freed = monotonic()
                client.free.append(connection)

    def _look_after(self, now: float) -> None:
        super()._look_after(now)
        while self._due_s < min(now - self._plan.timeout_s, self._end_s):
            self._client.expire(self._due_s)
            self._due_s = next(self._arrivals)

    def _has_unsent(self) -> bool:
        return self._due_s < self._end_s

    def _unsent(self) -> list[float]:
        dues = []
        while self._due_s < self._end_s:
            dues.append(self._due_s)
            self._due_s = next(self._arrivals)
        return dues


def arrivals(load: OpenLoop, begin_s: float, number: int, processes: int) -> Iterator[float]:
    """Yield the moments at which the requests of process *number* are due, without end."""
    if load.arrivals == "constant":
        place = number
        while True:
            yield begin_s + place / load.rate
            place += processes
    chance, rate, due_s = random.Random(number), load.rate / processes, begin_s  # noqa: S311
    while True:
        due_s += chance.expovariate(rate)
        yield due_s


def create_run(client: LoadClient, plan: LoadPlan, control_fd: int) -> LoadRun:
    """Return the run of the load that *plan* asks for."""
    kind = ClosedLoopRun if isinstance(plan.load, ClosedLoop) else OpenLoopRun
    return kind(client, plan, control_fd)

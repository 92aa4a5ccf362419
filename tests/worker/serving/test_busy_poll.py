# SPDX-License-Identifier: Apache-2.0
"""When a worker polls busily between two batches, and when it sleeps."""

import select
import socket

import pytest

from servekit.ipc.busy_times import BUSY_S, OTHERS_S
from servekit.worker.serving import busy_poll
from servekit.worker.serving.busy_poll import BusyPoll

QUICK_S = OTHERS_S / 5  #: a look
READY = [(5, select.POLLIN)]


class Machine:
    """A clock that moves with each look and each sleep, and sockets that become ready by it."""

    def __init__(self) -> None:
        self.now = self.ready_at = 1000.0
        self.yield_s = 0.0  #: how long others have the core
        self.looks = self.sleeps = 0

    def poll(self, timeout_ms: int | None = None) -> list[tuple[int, int]]:
        if timeout_ms == 0:
            self.looks += 1
            self.now += QUICK_S
            return READY if self.now >= self.ready_at else []
        assert timeout_ms is None
        self.sleeps += 1
        self.now = max(self.now, self.ready_at)
        return READY

    def sched_yield(self) -> None:
        self.now += self.yield_s

    def wait(self, subject: BusyPoll, after_s: float) -> tuple[int, int]:
        """Let *subject* wait for what comes *after_s*; return how often it looked and slept."""
        self.looks = self.sleeps = 0
        self.ready_at = self.now + after_s
        assert subject.wait() == READY
        return self.looks, self.sleeps


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(busy_poll, "monotonic", lambda: machine.now)
    monkeypatch.setattr(busy_poll.os, "sched_yield", machine.sched_yield)
    return machine


def test_first_wait_is_asleep(machine):
    assert machine.wait(BusyPoll(machine, BUSY_S), BUSY_S / 2) == (0, 1)


def test_no_wait_is_awake_if_none_may_be(machine):
    subject = BusyPoll(machine, 0.0)

    assert [machine.wait(subject, 0.0) for _ in range(3)] == [(0, 1)] * 3


def test_after_a_short_wait_the_next_is_awake(machine):
    subject = BusyPoll(machine, BUSY_S)
    machine.wait(subject, BUSY_S / 2)
    for _ in range(3):
        looks, sleeps = machine.wait(subject, BUSY_S / 2)
        assert looks > 1
        assert not sleeps


def test_worker_that_waits_for_long_sleeps_and_looks_no_more(machine):
    subject = BusyPoll(machine, BUSY_S)
    machine.wait(subject, BUSY_S / 2)
    looks, sleeps = machine.wait(subject, 60)
    assert looks <= BUSY_S / QUICK_S + 2  # sums of floats
    assert sleeps == 1

    assert machine.wait(subject, 60) == (0, 1)


def test_batches_at_longer_intervals_keep_no_worker_awake(machine):
    subject = BusyPoll(machine, BUSY_S)

    assert [machine.wait(subject, 1.01 * BUSY_S) for _ in range(3)] == [(0, 1)] * 3


def test_core_that_others_want_is_left_to_them(machine):
    subject = BusyPoll(machine, BUSY_S)
    machine.wait(subject, BUSY_S / 2)
    machine.yield_s = 2 * OTHERS_S

    assert machine.wait(subject, BUSY_S / 2) == (1, 1)


def test_ready_sockets_are_found_awake_and_asleep():
    ours, other = socket.socketpair()
    with ours, other:
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        subject = BusyPoll(poll, BUSY_S)
        other.send(b"1")

        assert [subject.wait() for _ in range(3)] == [[(ours.fileno(), select.POLLIN)]] * 3

# SPDX-License-Identifier: Apache-2.0
"""When a front-end stays awake until a worker answers, and when it sleeps."""

import socket
from unittest.mock import Mock, call

import gevent
import pytest

from servekit.frontend.batching import channel
from servekit.frontend.batching.channel import WAKE_S, BusyLoop, Channel
from servekit.ipc.arena import Arena
from servekit.ipc.batches import Hello, Ping, Pong, Predict
from servekit.ipc.busy_times import BUSY_S, OTHERS_S
from servekit.ipc.channel import encode_frame, send_first

TURN_S = OTHERS_S / 5


class Machine:
    """A clock, an event loop that makes turns by hand, and other processes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.yield_s = TURN_S  #: how long others have the core
        self.watchers: list[Machine] = []
        self.callback = None

    def idle(self) -> "Machine":
        self.watchers.append(self)
        return self

    def start(self, callback) -> None:
        assert self.callback is None, "it has been started"
        self.callback = callback

    def stop(self) -> None:
        self.callback = None

    def close(self) -> None:
        self.watchers.remove(self)

    def sched_yield(self) -> None:
        self.now += self.yield_s

    @property
    def is_awake(self) -> bool:
        return self.callback is not None

    def turn(self, count: int = 1) -> int:
        """Make up to *count* turns while the loop is awake; return how many."""
        for done in range(count):
            if self.callback is None:
                return done
            self.callback()
        return count


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(channel, "monotonic", lambda: machine.now)
    monkeypatch.setattr(channel.os, "sched_yield", machine.sched_yield)
    return machine


def exchange(subject: BusyLoop, machine: Machine, took_s: float = BUSY_S / 2) -> None:
    """Let a worker take *took_s* for a message."""
    subject.sent(machine.now)
    machine.now += took_s
    subject.answered()
    machine.turn()


@pytest.fixture
def subject(machine):
    """A loop whose worker has been quick."""
    subject = BusyLoop(machine, BUSY_S)
    exchange(subject, machine)
    assert not machine.is_awake
    return subject


def test_loop_sleeps_until_the_worker_has_been_quick(machine):
    subject = BusyLoop(machine, BUSY_S)
    subject.sent(machine.now)

    assert not machine.is_awake


def test_loop_sleeps_always_if_it_may_not_be_awake(machine):
    subject = BusyLoop(machine, 0.0)
    exchange(subject, machine, 0.0)
    subject.sent(machine.now)

    assert not machine.is_awake


def test_loop_is_awake_until_the_answer_comes(machine, subject):
    for _ in range(3):
        subject.sent(machine.now)
        assert machine.turn(5) == 5
        subject.answered()
        assert machine.turn(5) == 1
    assert len(machine.watchers) == 1


def test_loop_sleeps_if_the_answer_takes_long(machine, subject):
    subject.sent(machine.now)

    assert machine.turn(1000) == pytest.approx(BUSY_S / TURN_S, abs=2)
    assert not machine.is_awake


def test_worker_that_is_quick_no_more_is_waited_for_asleep(machine, subject):
    exchange(subject, machine, 2 * BUSY_S)
    subject.sent(machine.now)

    assert not machine.is_awake


def test_next_message_keeps_it_awake(machine, subject):
    subject.sent(machine.now)
    machine.turn(50)
    subject.answered()
    subject.sent(machine.now)

    assert machine.turn(90) == 90


def test_worker_that_had_to_be_woken_is_waited_for_asleep(machine, subject):
    before = machine.now
    machine.now += 1.1 * WAKE_S
    subject.sent(before)

    assert not machine.is_awake


def test_core_that_others_want_is_left_to_them(machine, subject):
    subject.sent(machine.now)
    machine.yield_s = 1.1 * OTHERS_S

    assert machine.turn(5) == 1


def test_closed_channel_leaves_the_loop_asleep(machine, subject):
    subject.sent(machine.now)
    subject.close()

    assert not machine.is_awake


def test_loop_of_gevent_makes_turns_and_sleeps_again():
    subject = BusyLoop(gevent.get_hub().loop, BUSY_S)
    later = channel.monotonic() + 60  # a worker is quick, however slow the machine is
    subject.sent(later)
    subject.answered()
    subject.sent(later)
    assert subject._is_busy
    with gevent.Timeout(10):
        while subject._is_busy:
            gevent.sleep(0.001)
    subject.close()


def test_channel_waits_awake_for_the_answers_to_batches_alone(machine, tmp_path):
    loop, bodies = gevent.get_hub().loop, Arena(1 << 20)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "worker.sock"))
        listener.listen()
        subject = Channel(loop, listener.getsockname(), bodies, 8, print, pytest.fail)
        worker, _ = listener.accept()
    with worker:
        subject._busy_loop = calls = Mock()
        subject.send(Ping())
        subject.send(Predict(1, [], []))
        send_first(worker, Hello(1), bodies.descriptor)
        loop.run(nowait=True)
        worker.sendall(encode_frame(Pong("")))
        loop.run(nowait=True)
        subject.close()
    bodies.close()

    assert calls.mock_calls == [call.sent(machine.now), *2 * [call.answered()], call.close()]

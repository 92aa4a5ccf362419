# SPDX-License-Identifier: Apache-2.0
"""Too few descriptors, too little memory: what was taken is answered, and all is well after."""

import contextlib
import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from servekit.frontend.memory import pressure
from servekit.frontend.memory.body_arena import BodyArena
from servekit.frontend.memory.pressure import Pressure
from servekit.frontend.memory.shedding import Shedder
from tests.waiting import wait_until

from .clients import paused, resident, wait_until_arrived
from .conftest import WAIT_S, post, receive


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_answered(sock: socket.socket, timeout_s: float) -> bool:
    sock.settimeout(timeout_s)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False


def test_front_end_without_descriptors_waits_and_goes_on(start):
    front_end = start(header_timeout=300.0)  # what is taken is not closed meanwhile
    used = len([*Path(f"/proc/{front_end.pid}/fd").iterdir()])
    _, hard = resource.prlimit(front_end.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(front_end.pid, resource.RLIMIT_NOFILE, (used + 10, hard))
    with ExitStack() as stack:
        socks = [stack.enter_context(front_end.connect()) for _ in range(60)]
        socks[0].sendall(post(b"taken"))
        assert receive(socks[0])[::2] == (200, b"taken")
        socks[-1].sendall(post(b"waiting"))
        before = cpu_s(front_end.pid)
        assert not is_answered(socks[-1], 1.0)
        assert cpu_s(front_end.pid) - before < 0.25
        for sock in socks[:-1]:
            sock.close()
        socks[-1].settimeout(WAIT_S)

        assert receive(socks[-1])[::2] == (200, b"waiting")


def test_front_end_above_its_memory_refuses_predictions_at_once_and_tells_its_health(start):
    front_end = start(memory=2**20)
    with ExitStack() as stack:
        for _ in range(5):
            status, headers, _ = ask_at_once(front_end, stack, post(b"1"))
            assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
            assert ask_at_once(front_end, stack, PING)[0] == 200


PING = b"GET /ping HTTP/1.1\r\nHost: test\r\n\r\n"


def ask_at_once(front_end, stack, request):
    """Return the answer to *request*, which arrives with its connection: idle ones are closed."""
    with paused(front_end):
        sock = stack.enter_context(front_end.connect())
        sock.sendall(request)
        wait_until_arrived(sock)
    return receive(sock)


def test_front_end_near_its_memory_closes_what_is_idle(start):
    front_end = start(memory=2**20)
    with ExitStack() as stack:
        with paused(front_end):
            sock = stack.enter_context(front_end.connect())
            sock.sendall(PING)
            wait_until_arrived(sock)
        assert receive(sock)[0] == 200

        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    ("share", "is_high", "is_full"),
    [(0.5, False, False), (0.86, True, False), (0.96, True, True), (1.5, True, True)],
)
def test_pressure(monkeypatch, share, is_high, is_full):
    monkeypatch.setattr(pressure, "resident", lambda: int(1000 * share))
    measured = Pressure(1000, 5.0)
    measured.sweep(monotonic())

    assert (measured.is_high, measured.is_full) == (is_high, is_full)


@pytest.fixture
def thousand(monkeypatch):
    """Of 1,000 bytes, 250 are taken by the process itself: 600 are for clients."""
    monkeypatch.setattr(pressure, "resident", lambda: 250)
    return Pressure(1000, 5.0)


def test_bodies_have_room_for_their_part_of_the_memory(thousand):
    assert thousand.has_room(360)
    thousand.bodies = 300

    assert thousand.has_room(60)
    assert not thousand.has_room(61)


def test_bodies_of_a_model_that_is_gone_take_no_room():
    unlimited = Pressure(0, 5.0)
    bodies = BodyArena(2**20, unlimited, 2**16)
    slab = bodies.lay([bytes(100_000)])
    assert unlimited.bodies == 100_000
    bodies.close()
    assert unlimited.bodies == 0
    bodies.free(slab)

    assert unlimited.bodies == 0


def test_bodies_have_no_room_where_the_process_takes_all(thousand, monkeypatch):
    monkeypatch.setattr(pressure, "resident", lambda: 800)
    thousand.sweep(monotonic())

    assert thousand.has_room(50)
    assert not thousand.has_room(51)


def test_workers_wait_a_moment_for_answers_to_go_and_then_large_ones_are_refused(thousand):
    now = monotonic()
    thousand.hold_answers(240)
    assert not thousand.is_waiting(now)
    assert not thousand.refuses_answer(now + 60)
    thousand.hold_answers(1)
    assert thousand.is_waiting(now)
    assert not thousand.refuses_answer(now)
    assert not thousand.is_waiting(now + 60)
    assert thousand.refuses_answer(now + 60)
    thousand.hold_answers(-1)

    assert not thousand.refuses_answer(now + 60)


def test_without_a_limit_there_is_always_room(monkeypatch):
    monkeypatch.setattr(pressure, "memory_groups", list)
    unlimited = Pressure(0, 5.0)
    unlimited.bodies = 2**60
    unlimited.hold_answers(2**60)

    assert unlimited.has_room(2**60)
    assert not unlimited.is_stalled


class Client:
    """A holder that moves at a rate of its own."""

    bodies = None

    def __init__(self, shedder, rate, held=100):
        self.rate, self.held, self.moved, self.left, self.is_shed = rate, held, 0, held, False
        self.shedder = shedder
        shedder.add(self)

    def shed(self):
        self.is_shed = True
        self.shedder.discard(self)


@pytest.fixture
def clients():
    """Look for a second at clients of these rates; return those that were ended, by rate."""

    def look(rates, wanted, is_of_use=lambda _: True):
        shedder = Shedder(5.0)
        found = [Client(shedder, rate) for rate in rates]
        now = monotonic() + 1.5
        for client in found:
            client.moved, client.left = client.rate, client.held - client.rate
        shedder.look(now)
        shedder.shed(wanted, is_of_use)
        return [client.rate for client in found if client.is_shed]

    return look


@pytest.mark.parametrize(
    ("rates", "wanted", "ended"),
    [
        ([1, 60, 2, 0], 100, [0]),
        ([1, 60, 2, 0], 101, [1, 0]),
        ([1, 60, 2, 0], 10_000, [1, 2, 0]),  # the fourth will be out in less than five seconds
        ([60, 70], 10_000, []),
        ([0], 0, []),
    ],
)
def test_the_slowest_end_first_and_no_more_than_needed(clients, rates, wanted, ended):
    assert clients(rates, wanted) == ended


def test_what_is_of_no_use_to_those_who_wait_goes_on(clients):
    assert clients([0, 1], 100, lambda client: client.rate == 1) == [1]


def test_a_client_is_looked_at_for_a_while_before_it_is_slow():
    shedder, now = Shedder(5.0), monotonic()
    client = Client(shedder, 0)
    shedder.look(now + 0.5)
    shedder.shed(100, lambda _: True)

    assert not client.is_shed


HEAD = b"POST /echo/predict HTTP/1.1\r\nHost: test\r\nContent-Length: 500000\r\n\r\n"


def test_a_few_slow_uploads_leave_the_arena_to_others(start):
    front_end = start(arena=2**20, body_rate=0, body_timeout=20.0)
    body = os.urandom(500_000)
    with ExitStack() as stack:
        slow = [stack.enter_context(front_end.connect()) for _ in range(2)]
        for sock in slow:
            sock.sendall(HEAD + bytes(499_000))  # and nothing more
        wait_until(lambda: resident(front_end) >= 998_000, "both are in the arena")
        other = stack.enter_context(front_end.connect())
        other.sendall(post(body))

        assert receive(other)[::2] == (200, body)
        ended = [is_answered(sock, 0.5) for sock in slow]
        assert ended.count(True) == 1
        assert receive(slow[ended.index(True)])[0] == 408


def test_answers_that_nobody_takes_do_not_hold_up_others_for_long(start):
    front_end = start(memory=200 * 2**20, send_timeout=300.0, body_timeout=5.0)
    worker = front_end.worker
    large = os.urandom(30_000_000)
    slab = worker.arena.allocate(len(large))
    worker.arena.write(slab, large)
    worker.answer = lambda item: ("", "x/y", slab if item.body == b"large" else b"small")
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(front_end.connect()).sendall(post(b"large"))
        for _ in range(3):
            other = stack.enter_context(front_end.connect())
            other.sendall(post(b"x"))

            assert receive(other)[::2] == (200, b"small")


def test_a_large_body_for_no_model_is_held_to_the_memory(start):
    front_end = start(memory=80 * 2**20, max_body=2**26)
    head = b"POST /nobody HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    with front_end.connect() as sock:
        sock.sendall(head)
        with contextlib.suppress(ConnectionError):  # it is refused before all of it is out
            for _ in range(60):
                sock.sendall(b"100000\r\n" + bytes(2**20) + b"\r\n")

        assert receive(sock)[0] == 429


def test_resident_memory_is_that_of_this_process():
    before = pressure.resident()
    kept = bytearray(os.urandom(1)) * 50_000_000

    assert 40_000_000 < pressure.resident() - before < 100_000_000
    assert kept

# SPDX-License-Identifier: Apache-2.0
"""Too few descriptors, too little memory: what was taken is answered, and all is well after."""

import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from servekit.frontend import pressure
from servekit.frontend.pressure import Pressure

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
    front_end = start()
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
        started = monotonic()

        assert receive(socks[-1])[::2] == (200, b"waiting") or is_answered(socks[-1], WAIT_S)
        assert monotonic() - started < 10


def test_front_end_above_its_memory_refuses_and_takes_one_client_at_a_time(start):
    front_end = start(memory=2**20)
    with front_end.connect() as idle:
        deadline = monotonic() + WAIT_S
        with ExitStack() as stack:
            while True:  # until a sweep has seen that there is a connection
                assert monotonic() < deadline, "connections are taken all the time"
                other = stack.enter_context(front_end.connect())
                other.sendall(post(b"1"))
                if not is_answered(other, 0.5):
                    break
            idle.sendall(post(b"1"))
            for sock in (idle, other):
                sock.settimeout(WAIT_S)
                status, headers, _ = receive(sock)
                assert (status, headers["connection"], headers["retry-after"]) == (
                    503,
                    "close",
                    "1",
                )


@pytest.mark.parametrize(
    ("share", "is_high", "is_full"),
    [(0.5, False, False), (0.86, True, False), (0.96, True, True), (1.5, True, True)],
)
def test_pressure(monkeypatch, share, is_high, is_full):
    monkeypatch.setattr(pressure, "resident", lambda: int(1000 * share))
    measured = Pressure(1000)
    measured.measure(monotonic())

    assert (measured.is_high, measured.is_full) == (is_high, is_full)


def test_resident_memory_is_that_of_this_process():
    before = pressure.resident()
    kept = bytearray(os.urandom(1)) * 50_000_000

    assert 40_000_000 < pressure.resident() - before < 100_000_000
    assert kept

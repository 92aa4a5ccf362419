# SPDX-License-Identifier: Apache-2.0
"""Clients that are slow, half gone, or gone: each is let go of in time, and costs nobody else."""

import ctypes
import os
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from .clients import paused, wait_until_arrived
from .conftest import WAIT_S, post, receive

HEAD = b"POST /echo/predict HTTP/1.1\r\nHost: test\r\n"
USUAL_S = 30.0  #: less than the timeouts of tests that set none
PIDFD_GETFD = 438


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A front-end with a timeout of its own for each thing a client may be slow at."""
    from .conftest import FrontEndUnderTest

    timeouts = {"header_timeout": 0.5, "body_timeout": 0.7, "keep_alive": 0.9}
    front_end = FrontEndUnderTest(tmp_path_factory.mktemp("run"), body_rate=10_000, **timeouts)
    yield front_end
    assert front_end.stop() == 0


def drip(sock: socket.socket, piece: bytes, pause_s: float) -> bytes:
    """Send *piece* again and again until the server has something to say; return that."""
    sock.settimeout(pause_s)
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        sock.sendall(piece)
        try:
            return sock.recv(65_536)
        except TimeoutError:
            continue
    raise AssertionError(f"not ended within {WAIT_S} s")


SLOW = {
    "no request at all": (b"", 0.5, b""),
    "empty lines only": (b"\r\n", 0.5, b""),
    "half a method": (b"PO", 0.5, b"408"),
    "half a header section": (HEAD, 0.5, b"408"),
    "half a body": (HEAD + b"Content-Length: 10\r\n\r\nabc", 0.7, b"408"),
    "half a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", 0.7, b"408"),
    "half a large body": (HEAD + b"Content-Length: 300000\r\n\r\nabc", 0.7, b"408"),
    "nothing after an answer": (b"GET /ping/live HTTP/1.1\r\nHost: a\r\n\r\n", 0.9, b"200"),
}


@pytest.fixture(scope="module")
def ends(strict):
    """What each client that stops was sent, and after how many seconds; all stop at once."""
    found = ends_of(strict, [sent for sent, _, _ in SLOW.values()])
    return dict(zip(SLOW, found, strict=True))


def ends_of(strict, requests):
    with ExitStack() as stack:
        started = monotonic()
        socks = [stack.enter_context(sock) for sock in begin(strict, requests)]

        def end_of(sock):
            text = b"".join(iter(lambda: sock.recv(65_536), b""))
            return text, monotonic() - started

        with ThreadPoolExecutor(len(socks)) as pool:
            return list(pool.map(end_of, socks))


def begin(strict, requests):
    """Return a connection for each of *requests*, which arrives with it however busy we are."""
    socks = []
    with paused(strict):
        for sent in requests:
            socks.append(strict.connect())
            socks[-1].sendall(sent)
            wait_until_arrived(socks[-1])
    return socks


@pytest.mark.parametrize("name", SLOW)
def test_client_that_stops_is_let_go_of_in_time(ends, name):
    _, timeout_s, status = SLOW[name]
    text, took_s = ends[name]

    assert text[9:12] == status
    assert timeout_s <= took_s < USUAL_S


DRIPS = {
    "header section": (HEAD, b"X: y\r\n", 0.5),
    "body": (HEAD + b"Content-Length: 9000\r\n\r\n", b"x" * 20, 0.7),
    "large body": (HEAD + b"Content-Length: 99000\r\n\r\n", b"x" * 20, 0.7),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.7),
}


@pytest.fixture(scope="module")
def drips(strict):
    """As ``ends``, of clients that go on sending a little; all at once."""
    found = drips_of(strict, [(begun, piece) for begun, piece, _ in DRIPS.values()])
    return dict(zip(DRIPS, found, strict=True))


def drips_of(strict, rows):
    with ExitStack() as stack, ThreadPoolExecutor(len(rows)) as pool:
        started = monotonic()
        socks = [stack.enter_context(sock) for sock in begin(strict, [row[0] for row in rows])]
        return list(
            pool.map(
                lambda sock, row: (drip(sock, row[1], 0.05), monotonic() - started), socks, rows
            )
        )


@pytest.mark.parametrize("name", DRIPS)
def test_client_that_drips_is_let_go_of_all_the_same(drips, name):
    text, took_s = drips[name]

    assert text[9:12] == b"408"
    assert DRIPS[name][2] <= took_s < USUAL_S


def test_body_above_the_rate_may_take_longer_than_the_timeout(start):
    front_end = start(body_timeout=3.0, body_rate=1000)
    sizes = (60_000, 90_000)  # the larger one goes through shared memory
    with front_end.connect() as small, front_end.connect() as large:
        both = list(zip(sizes, (small, large), strict=True))
        for size, sock in both:
            sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size)
            sock.settimeout(0.12)
        for _ in range(14):
            for size, sock in both:
                sock.sendall(b"x" * (size // 15))
                with pytest.raises(TimeoutError):
                    sock.recv(1)
        for size, sock in both:
            sock.settimeout(WAIT_S)
            sock.sendall(b"x" * (size // 15))

            assert receive(sock)[0] == 200


def answer_large(front_end):
    """Have the worker answer ``large`` with 16 MB of shared memory; return them."""
    large = os.urandom(16_000_000)
    slab = front_end.worker.arena.allocate(len(large))
    front_end.worker.arena.view(slab)[:] = large
    usual = front_end.worker.answer
    front_end.worker.answer = lambda item: (
        ("", "x/y", slab) if item.body == b"large" else usual(item)
    )
    return large


def small_window(front_end) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    sock.settimeout(WAIT_S)
    sock.connect(("127.0.0.1", front_end.port))
    return sock


def test_client_that_reads_nothing_is_let_go_of_and_the_answer_freed(start):
    front_end = start(send_timeout=1.1)  # not 30 s
    answer_large(front_end)
    with small_window(front_end) as sock, front_end.connect() as other:
        started = monotonic()
        sock.sendall(post(b"large"))
        while not front_end.worker.freed:
            assert monotonic() - started < USUAL_S, "it is still held"
            other.settimeout(WAIT_S)
            other.sendall(post(b"quick"))
            assert receive(other)[2] == b"quick"
            other.settimeout(0.2)
            with pytest.raises(TimeoutError):
                other.recv(1)

        assert monotonic() - started >= 1.1
        with pytest.raises(ConnectionResetError):
            b"".join(iter(lambda: sock.recv(65_536), b""))


def test_client_that_reads_slowly_gets_its_whole_answer(start):
    front_end = start(send_timeout=2.5)
    large = answer_large(front_end)
    with small_window(front_end) as sock:
        sock.sendall(post(b"large"))
        started, got = monotonic(), 0
        pause = socket.socketpair()
        pause[0].settimeout(0.02)
        while monotonic() < started + 4.5:  # nearly twice the timeout
            got += len(sock.recv(40_000))
            with pytest.raises(TimeoutError):
                pause[0].recv(1)
        while got < len(large):
            got += len(sock.recv(2**20))
        for end in pause:
            end.close()


def test_connections_inherit_what_notices_a_vanished_peer(start):
    front_end = start(send_timeout=40)
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    with front_end.connect() as sock:
        sock.sendall(post(b"1"))
        assert receive(sock)[0] == 200
        (accepted,) = connections_of(front_end)
        with accepted:
            kept = [accepted.getsockopt(socket.IPPROTO_TCP, option) for option in options]
            given_up_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)

            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert (kept, given_up_ms) == ([30, 10, 3], 40_000)


def connections_of(front_end) -> list[socket.socket]:
    """Return copies of the sockets that the front-end has accepted."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd, found = os.pidfd_open(front_end.pid), []
    for entry in [*Path(f"/proc/{front_end.pid}/fd").iterdir()]:
        if not str(entry.readlink()).startswith("socket:"):
            continue
        copy = libc.syscall(PIDFD_GETFD, pidfd, int(entry.name), 0)
        if copy == -1:
            pytest.skip(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        sock = socket.socket(fileno=copy)
        is_ours = sock.family == socket.AF_INET and sock.getsockname()[1] == front_end.port
        if is_ours and not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            found.append(sock)
        else:
            sock.close()
    os.close(pidfd)
    return found


def test_client_that_ends_its_half_is_answered_if_a_worker_has_its_request(shared):
    with shared.connect() as sock:
        sock.sendall(post(b"1"))
        sock.shutdown(socket.SHUT_WR)

        assert receive(sock)[::2] == (200, b"1")
        assert sock.recv(1) == b""


def test_client_that_ends_its_half_while_queued_is_dropped(start):
    front_end = start()
    front_end.worker.is_holding = True
    with front_end.connect() as first, front_end.connect() as second:
        first.sendall(post(b"first"))
        front_end.worker.batches.get(timeout=WAIT_S)
        second.sendall(post(b"second"))
        second.shutdown(socket.SHUT_WR)
        assert second.recv(1) == b""
        front_end.worker.is_holding = False
        front_end.worker.release()

        assert receive(first)[2] == b"first"
        first.sendall(post(b"third"))
        assert receive(first)[2] == b"third"
    assert [item.body for item in front_end.worker.batches.get(timeout=WAIT_S)] == [b"third"]


def test_flood_of_chunks_is_taken_within_the_limit_and_holds_up_nobody(shared):
    flood = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nA\r\n" * 100_000 + b"0\r\n\r\n"
    with shared.connect() as sock, shared.connect() as other:
        sock.sendall(flood)
        other.sendall(post(b"quick"))
        assert receive(other)[2] == b"quick"

        assert receive(sock)[::2] == (200, b"A" * 100_000)


def test_reset_is_no_error(shared):
    said = shared.log.read_text()
    for _ in range(12):
        sock = shared.connect()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(post(b"1"))
        sock.close()
    with shared.connect() as sock:
        sock.sendall(post(b"1"))
        assert receive(sock)[0] == 200

    assert shared.log.read_text() == said

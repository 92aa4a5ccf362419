# SPDX-License-Identifier: Apache-2.0
"""The clients of large requests, against servers that behave well and badly."""

import socket
import threading

import pytest

from tests.scale.prober import probing
from tests.scale.transfers import chunked, transfer

SIZE = 200_000
WIRE = chunked("/bulk/predict", SIZE)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE + b"x" * SIZE


@pytest.fixture
def serve():
    """Let a thread do the same with each connection, until the test is over."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended, threads = threading.Event(), []

        def start(behave):
            def run():
                while not ended.is_set():
                    sock, _ = listener.accept()
                    with sock:
                        behave(sock)

            threads.append(threading.Thread(target=run))
            threads[0].start()
            return listener.getsockname()[1]

        yield start
        ended.set()
        for thread in threads:
            socket.create_connection(listener.getsockname(), 60).close()
            thread.join(60)
            assert not thread.is_alive()


def answer(sock):
    """Read the whole request, then answer."""
    got = b""
    while not got.endswith(b"0\r\n\r\n"):
        data = sock.recv(65_536)
        if not data:
            return
        got += data
    sock.sendall(OK if got == WIRE else b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")


def test_every_client_sends_all_and_reads_all(serve):
    assert transfer(serve(answer), WIRE, 5, 60) == {"200": 5}


def test_a_connection_that_ends_early_is_lost(serve):
    assert transfer(serve(lambda sock: sock.recv(1)), WIRE, 2, 60) == {"lost": 2}


def test_silence_is_late():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert transfer(listener.getsockname()[1], WIRE, 2, 0.1) == {"late": 2}


def test_the_longest_wait_for_a_ping_is_told(serve):
    pause = threading.Event()

    def late(sock):
        if sock.recv(4096):
            pause.wait(0.2)

    with probing(serve(late)) as prober:
        pass

    assert 0 <= prober.longest_ms < 60_000


def test_chunks_are_as_long_as_they_say():
    head, _, rest = WIRE.partition(b"\r\n\r\n")
    size = 0
    while rest != b"0\r\n\r\n":
        line, _, rest = rest.partition(b"\r\n")
        count = int(line, 16)
        assert rest[count : count + 2] == b"\r\n"
        size, rest = size + count, rest[count + 2 :]

    assert (head.partition(b" ")[0], size) == (b"POST", SIZE)

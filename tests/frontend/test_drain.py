# SPDX-License-Identifier: Apache-2.0
"""A front-end that leaves: nothing that the kernel has accepted is dropped."""

import socket
from contextlib import ExitStack

import pytest

from .clients import paused, wait_until_arrived
from .conftest import WAIT_S, post, receive
from .framing import GET

MANY = 100  #: more than are accepted in one turn of the loop, fewer than the backlog holds


@pytest.fixture
def leaving(start):
    """A front-end whose server says that it stops."""
    front_end = start()
    front_end.publish(is_draining=True)
    with front_end.connect() as sock:
        while True:  # until it has heard of it
            sock.sendall(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
            status, headers, _ = receive(sock)
            if "connection" in headers:
                assert (status, headers["connection"]) == (503, "close")
                return front_end


def test_requests_are_served_on_while_ping_says_no(leaving):
    with leaving.connect() as sock:
        sock.sendall(post(b"1"))
        status, headers, body = receive(sock)

        assert (status, headers["connection"], body) == (200, "close", b"1")
        assert sock.recv(1) == b""


def test_pipeline_is_answered_to_its_end(leaving):
    with leaving.connect() as sock:
        sock.sendall(post(b"1") + post(b"2") + post(b"3"))
        text = b"".join(iter(lambda: sock.recv(65_536), b""))

        assert (text.count(b"200 OK"), text.count(b"Connection: close")) == (3, 1)


def test_what_waits_to_be_accepted_is_accepted_and_answered(leaving):
    with ExitStack() as stack:
        with paused(leaving):
            socks = [stack.enter_context(leaving.connect()) for _ in range(MANY)]
            for sock in socks:
                sock.sendall(GET)
            leaving.process.terminate()
            leaving.listener.close()

        assert [receive(sock)[0] for sock in socks] == [200] * MANY
        assert leaving.process.wait(WAIT_S) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", leaving.port), timeout=WAIT_S)


def test_client_that_has_just_connected_gets_to_ask(leaving):
    with ExitStack() as stack:
        sock = stack.enter_context(leaving.connect())
        with paused(leaving):  # it closes a client that is silent for half a second
            leaving.process.terminate()
            late = stack.enter_context(leaving.connect())
            for each in (sock, late):
                each.sendall(post(b"1"))
                wait_until_arrived(each)

        assert [receive(each)[::2] for each in (sock, late)] == [(200, b"1")] * 2


def test_what_is_in_flight_is_finished_and_idle_clients_are_let_go(start):
    front_end = start()
    with front_end.connect() as busy, front_end.connect() as idle:
        idle.sendall(post(b"1"))
        receive(idle)
        front_end.worker.batches.get(timeout=WAIT_S)
        front_end.worker.is_holding = True
        busy.sendall(post(b"busy"))
        front_end.worker.batches.get(timeout=WAIT_S)
        front_end.publish(is_draining=True)
        front_end.process.terminate()
        assert idle.recv(1) == b""
        front_end.worker.is_holding = False
        front_end.worker.release()

        assert receive(busy)[::2] == (200, b"busy")
        assert front_end.process.wait(WAIT_S) == 0

# SPDX-License-Identifier: Apache-2.0
"""The client tells the truth about a server that behaves badly."""

import socket
import struct
import threading

import pytest

from tests.faults.client import Action, Client
from tests.faults.requests import predict

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"
NOW_RESET = struct.pack("ii", 1, 0)


def own(request_id):
    return b'{"prediction":{"id":"%b"}}' % request_id


def answer(sock, body):
    sock.sendall(OK % (len(body), body))


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW_RESET)


BEHAVIOURS = {
    "its own answer": (lambda sock: answer(sock, own(b"one")), ("answered", 200, True)),
    "another's answer": (lambda sock: answer(sock, own(b"two")), ("answered", 200, False)),
    "a refusal": (
        lambda sock: sock.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
        ("answered", 503, True),
    ),
    "nothing, then the end": (lambda sock: None, ("closed", 0, True)),
    "half an answer": (lambda sock: sock.sendall(OK % (9, b"{")), ("closed", 0, True)),
    "no HTTP": (lambda sock: sock.sendall(b"hello\r\n\r\n"), ("closed", 0, True)),
    "a reset": (reset, ("reset", 0, True)),
}


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        yield listener


def serve(listener, behave, connections=1):
    """Do the same to each of so many connections, then close it."""

    def run():
        for _ in range(connections):
            sock, _ = listener.accept()
            with sock:
                sock.recv(65_536)
                behave(sock)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(("behave", "wanted"), BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_a_line_says_what_became_of_its_request(listener, behave, wanted):
    server = serve(listener, behave)
    (line,) = Client(listener.getsockname()[1], 1).run([predict("m", "one")])
    server.join()

    assert (line.end, line.status, line.is_right) == wanted


def test_silence_is_a_timeout(listener):
    (line,) = Client(listener.getsockname()[1], 1, timeout_s=0.1).run([predict("m", "one")])

    assert line.end == "timeout"
    assert line.latency_s >= 0.1


def test_a_closed_port_is_no_loss():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ledger = Client(port, 1).run([predict("m", "one")])

    assert ledger.counts() == {"refused": 1}
    assert ledger.lost() == []


def test_a_client_that_leaves_is_no_loss(listener):
    shot = predict("m", "one").leaving(0.05)
    ledger = Client(listener.getsockname()[1], 1).run([shot])

    assert ledger.counts() == {"left": 1}
    assert ledger.lost() == []


def test_latency_counts_from_the_moment_a_request_was_due(listener):
    """One connection, a server that takes 0.1 s: the second of two requests takes 0.2 s."""
    pause = threading.Event()

    def late(sock):
        for request_id in (b"0", b"1"):
            pause.wait(0.1)
            answer(sock, own(request_id))

    server = serve(listener, late)
    ledger = Client(listener.getsockname()[1], 1).run([predict("m", "0"), predict("m", "1")])
    server.join()

    first, second = ledger
    assert (second.due, second.sent > first.ended - 0.01) == (first.due, True)
    assert second.latency_s > first.latency_s > 0.09
    assert second.latency_s > 0.19


def test_actions_and_requests_wait_for_what_they_need(listener):
    server, done = serve(listener, lambda sock: answer(sock, own(b"one")), 2), []
    ledger = Client(listener.getsockname()[1], 1).run(
        [predict("m", "one"), predict("m", "one", at=0.01, once=lambda _: bool(done))],
        [Action(0, lambda: done.append("it"), once=lambda seen: bool(seen.answered(200)))],
    )
    server.join()

    first, second = ledger
    assert done == ["it"]
    assert second.sent > first.ended


def test_actions_are_done_in_time_and_a_run_can_end_early(listener):
    done = []
    ledger = Client(listener.getsockname()[1], 1, timeout_s=0.1).run(
        [predict("m", "one"), predict("m", "two", at=60)],
        [Action(0.05, lambda: done.append("it"))],
        until=lambda ledger: bool(ledger.lost()),
    )

    assert done == ["it"]
    assert len(ledger) == 1

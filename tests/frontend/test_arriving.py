# SPDX-License-Identifier: Apache-2.0
"""Requests that have arrived in part are counted, and small ones are shed as large ones are."""

import socket
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from servekit.extension.http import HttpResponse
from servekit.frontend.http1.connection import Http1Connection
from servekit.frontend.http1.listener import Http1Listener
from servekit.frontend.memory import pressure as measured
from servekit.frontend.memory.arriving import FREE_BYTES
from servekit.frontend.memory.pressure import Pressure

from .conftest import post, receive
from .stand_ins import make_host

HEAD = b"POST /a HTTP/1.1\r\nHost: a\r\n"
LARGE = HEAD + b"Content-Length: 60000\r\n\r\n" + bytes(30_000)


class Client:
    """A client of a connection without a process; every request is answered with its body."""

    def __init__(self, pressure):
        self.host = make_host(self._handle, pressure=pressure)
        self.requests = []
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        self.connection = Http1Connection(ours, None, Http1Listener(self.host, []))
        self.host.connections.add(self.connection)

    def _handle(self, exchange, request):
        self.requests.append(request)
        status = request.refusal.status if request.refusal is not None else 200
        exchange.respond(HttpResponse(status, b"", request_id="1"))

    def send(self, data):
        self.sock.send(data)
        self.host.loop.run(nowait=True)

    def status(self):
        """Return that of the answer; ``None``: there is none yet."""
        self.host.loop.run(nowait=True)
        try:
            return int(self.sock.recv(100).split()[1])
        except BlockingIOError:
            return None


@pytest.fixture
def client():
    """Return what makes clients; they are closed at the end."""
    with ExitStack() as stack:

        def make(pressure):
            made = Client(pressure)
            stack.callback(made.sock.close)
            stack.callback(made.connection.close)
            return made

        yield make


@pytest.fixture
def million(monkeypatch):
    """Of a million bytes, 90,000 are for requests that have arrived in part."""
    monkeypatch.setattr(measured, "resident", lambda: 250_000)
    return Pressure(1_000_000, 5.0)


PIECES = {
    "head": [b"POST /a HT", b"TP/1.1\r\nHost: a\r\nX-A: " + b"b" * 5000, b"b\r\n\r\n"],
    "head, then body": [HEAD + b"Content-Length: 9000\r\n\r\n", bytes(9000)],
    "body": [HEAD + b"Content-Length: 9000\r\n\r\n" + bytes(4500), bytes(4499), b"a"],
    "chunks": [HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", b"lo\r\n", b"0\r\n\r\n"],
    "after another": [post(b"1") + HEAD + b"X-A: " + b"b" * 5000, b"\r\n\r\n"],
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_a_request_is_counted_from_its_first_byte_until_it_is_whole(client, pieces):
    pressure = Pressure(0, 1.0)
    sender, sent = client(pressure), 0
    for piece in pieces[:-1]:
        sender.send(piece)
        sent += len(piece)
        assert sent <= pressure.arriving < sent + 1000
    sender.send(pieces[-1])

    assert (pressure.arriving, pressure.bodies, pressure.shedder._paces) == (0, 0, {})
    assert sender.requests[-1].refusal is None


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_a_request_that_ends_early_is_counted_no_longer(client, pieces):
    pressure = Pressure(0, 1.0)
    for end in (Client.status, lambda sender: sender.connection.close()):
        sender = client(pressure)
        sender.send(pieces[0])
        if end is Client.status:
            sender.sock.shutdown(socket.SHUT_WR)
        end(sender)

        assert (pressure.arriving, pressure.bodies, pressure.shedder._paces) == (0, 0, {})


def test_slow_small_requests_are_shed_while_others_go_on(client, million):
    slow, quick = client(million), client(million)
    slow.send(LARGE)
    quick.send(LARGE)
    assert [each.status() for each in (slow, quick)] == [None, None]
    quick.send(bytes(20_000))
    million.sweep(monotonic() + 1.5)

    assert [each.status() for each in (slow, quick)] == [408, None]
    quick.send(bytes(10_000))
    assert quick.status() == 200
    assert million.arriving == 0


def test_small_requests_without_room_are_refused_and_the_smallest_are_not(client, million):
    senders = [client(million) for _ in range(3)]
    for sender in senders:
        sender.send(LARGE)

    assert [sender.status() for sender in senders] == [None, None, 429]
    million.arriving = 10**6
    tiny = client(million)
    tiny.send(HEAD + b"Content-Length: 1000\r\n\r\n" + bytes(999))
    assert tiny.status() is None
    tiny.send(b"a")
    assert tiny.status() == 200
    million.arriving = 60_000


def test_large_bodies_keep_their_share(million):
    million.arriving = 10**6

    assert million.has_room(360_000)
    assert not million.has_room_for_parts(1)


def test_a_process_above_its_memory_sheds_what_is_slow(client, million, monkeypatch):
    slow = client(million)
    slow.send(HEAD + b"Content-Length: 60000\r\n\r\n" + bytes(FREE_BYTES))
    monkeypatch.setattr(measured, "resident", lambda: 900_000)
    million.sweep(monotonic() + 1.5)
    million.sweep(monotonic() + 3.0)

    assert slow.status() == 408


def rss(front_end) -> int:
    return int(Path(f"/proc/{front_end.pid}/statm").read_text().split()[1]) * 4096


def test_hundreds_of_small_bodies_that_do_not_end_leave_memory_to_others(start):
    front_end = start(memory=160 * 2**20, body_rate=0, body_timeout=20.0)
    before = rss(front_end)
    part = b"POST /echo/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 65000\r\n\r\n" + bytes(
        60_000
    )
    with ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(front_end.connect()).sendall(part)
        other = stack.enter_context(front_end.connect())
        for body in (b"small", bytes(1_000_000)):
            other.sendall(post(body))
            assert receive(other)[::2] == (200, body)

        assert rss(front_end) - before < 45 * 2**20  # of 90 MB that were sent

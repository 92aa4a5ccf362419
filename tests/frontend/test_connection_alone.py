# SPDX-License-Identifier: Apache-2.0
"""A connection and its reader without a process."""

import socket
from time import monotonic
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from servekit.extension import HttpResponse
from servekit.frontend.http.request_builder import BODY, IDLE
from servekit.frontend.http1.connection import Http1Connection
from servekit.frontend.http1.listener import Http1Listener
from servekit.frontend.http1.parser import HTTP2_PREFACE
from servekit.frontend.http1.reader import KnownHeads, RequestReader
from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings

from .conftest import post
from .garbage import no_garbage
from .stand_ins import make_host


def test_mistake_of_ours_is_logged_and_closes_the_connection(caplog):
    def handle(_exchange, _request):
        raise RuntimeError("a bug")

    host = make_host(handle)
    ours, client = socket.socketpair()
    with client:
        ours.setblocking(False)
        host.connections.add(Http1Connection(ours, None, Http1Listener(host, [])))
        client.sendall(post(b"1"))
        host.loop.run(nowait=True)

        assert client.recv(1) == b""
    assert [record.getMessage() for record in caplog.records] == [
        "unexpected error while reading a request"
    ]
    assert len(host.connections) == 0


def test_the_first_client_of_a_transport_waits_until_it_is_imported():
    """On a slow machine that takes longer than a client has for its header section."""
    importing, successor = [], Mock(expires=float("inf"), is_closed=False)
    transport = SimpleNamespace(alpn="h2", preface=HTTP2_PREFACE, when_loaded=importing.append)
    host = make_host(print)
    ours, client = socket.socketpair()
    with client, ours:
        ours.setblocking(False)
        host.connections.add(Http1Connection(ours, None, Http1Listener(host, [transport])))
        client.sendall(HTTP2_PREFACE + b"more")
        host.loop.run(nowait=True)
        host.connections.sweep(monotonic() + 20)
        (connect,) = importing
        connect(lambda *_: successor)

    successor.on_data.assert_called_once_with(b"more")


SENT = {
    "nothing": [],
    "part of a head": [post(b"1")[:10]],
    "part of a body": [post(b"123")[:-1]],
    "part of a large body": [post(bytes(300_000))[:100_000]],
    "a request": [post(b"1")],
    "the last request": [post(b"1").replace(b"Host", b"Connection: close\r\nHost")],
    "two requests, one after the other": [post(b"1"), post(b"2")],
    "no request": [b"\0\0\r\n\r\n"],
    "a body that is too long": [
        b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    ],
    "a malformed length": [b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n"],
    "a malformed chunk": [
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    ],
    "an unknown coding": [
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: br\r\nContent-Length: 1\r\n\r\n"
    ],
    "a long target": [b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"],
    "too many fields": [b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 500 + b"\r\n"],
}


def turn(host):
    """Have the loop handle what has arrived."""
    for _ in range(10):
        host.loop.run(nowait=True)


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
@pytest.mark.parametrize("is_patient", [True, False], ids=["reads", "leaves"])
def test_closed_connection_is_freed_at_once(sent, is_patient):
    """The garbage collector would free thousands together, in a pause of 100 ms for all."""
    with no_garbage():
        host = make_host(lambda exchange, _: exchange.respond(HttpResponse(200, b"ok")))
        ours, client = socket.socketpair()
        ours.setblocking(False)
        host.connections.add(Http1Connection(ours, None, Http1Listener(host, [])))
        for piece in sent:
            client.send(piece)
            turn(host)
        if is_patient:
            client.shutdown(socket.SHUT_WR)
            turn(host)
        client.close()
        turn(host)
        assert len(host.connections) == 0
        del host, ours, client


HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
NOT_KNOWN = {
    "a secret": b"Authorization: Bearer a\r\n",
    "cookies": b"Cookie: a=b\r\n",
    "an expectation": b"Expect: 100-continue\r\n",
    "the last request": b"Connection: close\r\n",
}


def events(reader, *pieces):
    """Return the requests that the reader makes of *pieces*."""
    found = []
    for piece in pieces:
        reader.feed(piece)
        found.append(next_event(reader))
    return found


def next_event(reader):
    return reader.requests.popleft() if reader.requests else reader.next_event()


@pytest.fixture
def reader():
    return RequestReader(Settings(), None, Pressure(0, 1.0), KnownHeads())


def test_heads_that_come_again_mean_the_same(reader):
    requests = events(reader, *(HEAD + b"\r\n" + body for body in (b"ab", b"cd", b"ef", b"gh")))

    assert [request.body for request in requests] == [b"ab", b"cd", b"ef", b"gh"]
    assert {(request.method, request.target) for request in requests} == {(b"POST", b"/a")}
    assert all(request.headers == requests[0].headers for request in requests)
    assert len({id(request.headers) for request in requests}) == 4


def test_known_head_with_a_body_that_is_not_whole(reader):
    whole = HEAD + b"\r\nab"
    events(reader, whole, whole, whole)
    reader.feed(whole[:-1])
    assert next_event(reader) == BODY
    reader.feed(b"b" + whole)

    assert [next_event(reader).body for _ in range(2)] == [b"ab", b"ab"]
    assert next_event(reader) == IDLE


def test_known_head_after_part_of_a_line_is_refused(reader):
    whole = HEAD + b"\r\nab"
    events(reader, whole, whole, whole, b"\r")
    reader.feed(whole)

    assert next_event(reader).refusal is not None


@pytest.mark.parametrize("line", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_heads_that_are_not_kept(line):
    known = KnownHeads()
    for _ in range(3):
        reader = RequestReader(Settings(), None, Pressure(0, 1.0), known)
        events(reader, HEAD + line + b"\r\nab", HEAD + line + b"\r\nab")

    assert known.find(HEAD + line + b"\r\nab") is None


def test_heads_that_never_come_again_are_not_kept(reader):
    whole = [HEAD + b"X-Request-Id: %d\r\n\r\nab" % number for number in range(10)]
    events(reader, *whole)

    assert [reader._known.find(each) for each in whole] == [None] * 10

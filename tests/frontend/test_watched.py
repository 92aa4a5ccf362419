# SPDX-License-Identifier: Apache-2.0
"""Filters can watch the body of a streamed response."""

import logging
import socket

import pytest

from servekit.extension import HttpResponse
from servekit.extension.http import NO_LENGTH
from servekit.frontend.http1.connection import Http1Connection
from servekit.frontend.http1.listener import Http1Listener

from .conftest import post
from .stand_ins import make_host

PIECES = (b"one", b"two")
CHUNKS = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


def answer(exchange, *watchers):
    """Stream the pieces to a client, with *watchers* of the body."""

    def watch(response):
        response.watchers = (*response.watchers, *watchers)
        return response

    exchange.add_filter(watch)
    writer = exchange.begin_stream(None, HttpResponse(200, length=NO_LENGTH, request_id="r"))
    for piece in PIECES:
        assert writer.write(piece)
    assert not writer.is_waiting
    writer.end()
    exchange.end_stream(6)


@pytest.fixture
def stream():
    """Return ``stream(*watchers)``: the body that a client gets."""
    ours, client = socket.socketpair()
    ours.setblocking(False)
    watching = []
    host = make_host(lambda exchange, _request: answer(exchange, *watching))
    host.connections.add(connection := Http1Connection(ours, None, Http1Listener(host, [])))

    def run(*watchers):
        watching[:] = watchers
        client.sendall(post(b"1", path="/echo/predict"))
        host.loop.run(nowait=True)
        return client.recv(65_536).partition(b"\r\n\r\n")[2]

    with client:
        yield run
        connection.close()


def test_watchers_see_each_piece_of_that_response(stream):
    seen, other = [], []

    assert stream(seen.append, other.append) == CHUNKS
    assert stream() == CHUNKS
    assert (seen, other) == ([*PIECES], [*PIECES])


def test_a_watcher_that_fails_is_logged_and_left_out(stream, caplog):
    seen = []

    def broken(piece):
        seen.append(piece)
        raise RuntimeError("mine")

    with caplog.at_level(logging.ERROR, "servekit.frontend"):
        assert stream(broken, seen.append) == CHUNKS
    assert seen == [b"one", b"one", b"two"]
    assert "watcher tests.frontend.test_watched" in caplog.text

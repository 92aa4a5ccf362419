# SPDX-License-Identifier: Apache-2.0
"""A connection without its process: what no client can bring about from outside."""

import socket

from servekit.frontend.http1.connection import Http1Connection
from servekit.frontend.http1.listener import Http1Listener

from .conftest import post
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

# SPDX-License-Identifier: Apache-2.0
"""A connection without its process: what no client can bring about from outside."""

import socket
from types import SimpleNamespace

import gevent

from servekit.frontend.http1.connection import Connection
from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings

from .conftest import post


def test_mistake_of_ours_is_logged_and_closes_the_connection():
    def route(*_arguments):
        raise RuntimeError("a bug")

    logged = []
    loop = gevent.get_hub().loop
    front_end = SimpleNamespace(
        settings=Settings(),
        loop=loop,
        route=route,
        log_exception=logged.append,
        connections=set(),
        access=None,
        pressure=Pressure(0, 1.0),
        is_crowded=False,
        cors=None,
    )
    ours, client = socket.socketpair()
    with client:
        ours.setblocking(False)
        Connection(ours, None, front_end)
        client.sendall(post(b"1"))
        loop.run(nowait=True)

        assert client.recv(1) == b""
    assert logged == ["while reading a request"]

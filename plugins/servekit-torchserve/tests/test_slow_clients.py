# SPDX-License-Identifier: Apache-2.0
"""The addresses of management and metrics outlive clients that are slow, idle or silent."""

import socket
import threading
from time import monotonic

import gevent
import pytest
from flask import Flask, request
from gevent.event import Event
from servekit_torchserve.management.connections import MAX_CONNECTIONS, ClientLimits, LimitedServer

from tests.waiting import wait_until

pytestmark = pytest.mark.slow

PATIENT = ClientLimits(header_timeout=60, body_timeout=60, send_timeout=60, keep_alive=60)
LARGE = 32 << 20
WAIT_S = 180.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def serve():
    """Return what starts a server in a thread, with its own limits, and returns the server."""
    ends = []

    def start(**limits):
        listening, found = threading.Event(), []
        thread = threading.Thread(target=run, args=(limits, listening, found), daemon=True)
        thread.start()
        assert listening.wait(WAIT_S), "the server does not listen"
        server, stopped = found
        ends.append((stopped, thread))
        return server

    yield start
    for stopped, thread in ends:
        stopped.send()
        thread.join(WAIT_S)


def run(limits, listening, found):
    app = Flask("slow")
    app.config["MAX_CONTENT_LENGTH"] = 1 << 20
    app.add_url_rule("/", "root", lambda: "here")
    app.add_url_rule("/", "body", lambda: request.get_data(), methods=["POST"])
    server = LimitedServer(("127.0.0.1", 0), app, PATIENT._replace(**limits))
    server.was_asked = threading.Event()
    app.add_url_rule("/large", "large", lambda: server.was_asked.set() or b"x" * LARGE)
    server.start()
    stopped, ended = gevent.get_hub().loop.async_(), Event()
    found.extend([server, stopped])
    stopped.start(ended.set)
    listening.set()
    ended.wait()
    server.stop(0)


def connect(server):
    return socket.create_connection(("127.0.0.1", server.server_port), WAIT_S)


def read_all(client):
    """Return what the server sends until it closes the connection."""
    content = b""
    while piece := client.recv(1 << 16):
        content += piece
    return content


def test_silent_connections_make_room_for_others(serve):
    server = serve(header_timeout=1)
    silent = [connect(server) for _ in range(MAX_CONNECTIONS)]
    with connect(server) as client:
        client.sendall(GET)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")

    assert [read_all(each) for each in silent] == [b""] * MAX_CONNECTIONS
    for each in silent:
        each.close()


def test_connections_that_are_idle_after_a_request_make_room(serve):
    server = serve(header_timeout=3, keep_alive=3)
    idle = [connect(server) for _ in range(MAX_CONNECTIONS)]
    for each in idle:
        each.sendall(GET)
    with connect(server) as client:
        client.sendall(GET)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")

    assert all(b"here" in read_all(each) for each in idle)
    for each in idle:
        each.close()


@pytest.mark.parametrize(
    ("begin", "status"),
    [
        (b"GET / HTTP/1.1\r\nx: ", b"408"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", b"200"),
    ],
    ids=["fields", "body", "body that nobody reads"],
)
def test_a_client_that_drips_is_disconnected(serve, begin, status):
    with connect(serve(header_timeout=1, body_timeout=0.2)) as client:
        client.sendall(begin)
        content = drip(client)

    assert content.split(b" ")[1] == status


def drip(client):
    """Send a byte every few hundredths of a second until the server closes the connection."""
    client.settimeout(0.03)
    content, deadline = b"", monotonic() + WAIT_S
    while monotonic() < deadline:
        try:
            client.sendall(b"x")
            if not (piece := client.recv(1 << 16)):
                return content
            content += piece
        except TimeoutError:
            continue
        except OSError:  # closed with bytes that nobody has read
            return content + read_all(client)  # what has come before
    raise AssertionError("the connection is open")


def test_a_client_that_reads_nothing_is_disconnected(serve):
    server = serve(send_timeout=0.2)
    with connect(server) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert server.was_asked.wait(WAIT_S), "the server does not get the request"
        wait_until(lambda: len(server.pool) == 0, "the server keeps the connection")
        content = read_all(client)

    assert len(content) < LARGE


def test_a_connection_that_is_used_is_kept(serve):
    with connect(serve()) as client:
        for _ in range(3):
            client.sendall(GET)
            content = b""
            while not content.endswith(b"here"):
                piece = client.recv(1 << 16)
                assert piece, "the connection is closed"
                content += piece

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

SHORT = ClientLimits(header_timeout=0.2, body_timeout=0.2, send_timeout=0.2, keep_alive=0.4)
LARGE = 32 << 20
WAIT_S = 20.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def port():
    """The port of a server that runs in a thread."""
    app = Flask("slow")
    app.config["MAX_CONTENT_LENGTH"] = 1 << 20
    app.add_url_rule("/", "root", lambda: "here")
    app.add_url_rule("/large", "large", lambda: b"x" * LARGE)
    app.add_url_rule("/", "body", lambda: request.get_data(), methods=["POST"])
    listening, found = threading.Event(), []

    def serve():
        server = LimitedServer(("127.0.0.1", 0), app, SHORT)
        server.start()
        stopped = gevent.get_hub().loop.async_()
        found.extend([server.server_port, stopped])
        ended = Event()
        stopped.start(ended.set)
        listening.set()
        ended.wait()
        server.stop(0)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert listening.wait(WAIT_S)
    yield found[0]
    found[1].send()
    thread.join(WAIT_S)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), WAIT_S)


def read_all(client):
    """Return what the server sends until it closes the connection."""
    content = b""
    while piece := client.recv(1 << 16):
        content += piece
    return content


def test_silent_connections_make_room_for_others(port):
    silent = [connect(port) for _ in range(MAX_CONNECTIONS)]
    with connect(port) as client:
        client.sendall(GET)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")

    assert [read_all(each) for each in silent] == [b""] * MAX_CONNECTIONS
    for each in silent:
        each.close()


def test_connections_that_are_idle_after_a_request_make_room(port):
    idle = [connect(port) for _ in range(MAX_CONNECTIONS)]
    for each in idle:
        each.sendall(GET)
    with connect(port) as client:
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
def test_a_client_that_drips_is_disconnected(port, begin, status):
    with connect(port) as client:
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
            return content
    raise AssertionError("the connection is open")


def test_a_client_that_reads_nothing_is_disconnected(port):
    with connect(port) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        threading.Event().wait(2 * SHORT.send_timeout)
        content = read_all(client)

    assert len(content) < LARGE


def test_a_connection_that_is_used_is_kept(port):
    with connect(port) as client:
        for _ in range(3):
            client.sendall(GET)
            content = b""
            while not content.endswith(b"here"):
                content += client.recv(1 << 16)

# SPDX-License-Identifier: Apache-2.0
"""How the controller asks a server whether it is well. No Ray."""

import socket
import ssl
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import trustme
from servekit_ray.watched import WatchedServer, get


@pytest.mark.parametrize(
    ("statuses", "is_lost", "state"),
    [
        pytest.param([-1, -1], True, "unready", id="its port is closed"),
        pytest.param([-1, 200, -1], False, "unready", id="it was closed for a moment"),
        pytest.param([0, 0, 0], True, "unready", id="no answer"),
        pytest.param([0, 0, 200], False, "ready", id="a late answer"),
        pytest.param([503] * 9, False, "unready", id="it heals its workers"),
    ],
)
def test_when_a_server_is_lost(statuses, is_lost, state):
    server = WatchedServer("one", None, "ready")
    noted = [server.note(status) for status in statuses]

    assert noted == [False] * (len(statuses) - 1) + [is_lost]
    assert server.state == state


def test_an_answer_that_is_not_http_counts_as_none():
    """A server that ends in the middle of its answer, or another program at its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        found = pool.submit(get, f"http://127.0.0.1:{listener.getsockname()[1]}/ping")
        listener.settimeout(5)
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")

    assert found.result() == (0, b"")


class Healthy(BaseHTTPRequestHandler):
    """Answers every ping."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_arguments):
        """Print nothing."""


@contextmanager
def served(context=None):
    """Yield the address of a server."""
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_proxy_for_the_internet_is_not_asked_for_servers(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(urllib.request, "_opener", None)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    with served() as address:
        assert get(f"http://{address}/ping") == (200, b"ok")


def test_a_certificate_without_the_address_of_the_node_is_enough():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("models.example").configure_cert(context)

    with served(context) as address:
        assert get(f"https://{address}/ping") == (200, b"ok")

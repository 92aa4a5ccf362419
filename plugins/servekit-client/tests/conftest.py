# SPDX-License-Identifier: Apache-2.0
"""A server that does as it is told, and both clients behind one call."""

import asyncio
import socket
import threading
from contextlib import aclosing, closing, suppress

import pytest
from servekit_client import AsyncClient, Client

WAIT_S = 30.0


def answer(status=200, body=b"", content_type="application/json", **headers):
    """Return one whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Told", f"Content-Type: {content_type}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class Scripted:
    """Answers one connection after another; an answer is bytes, or a function of the socket."""

    def __init__(self, answers, port=0):
        self.asked = []
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client_left = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        with self._listener, suppress(OSError):
            for told in self._answers:
                connection, _ = self._listener.accept()
                connection.settimeout(WAIT_S)
                with connection, suppress(OSError):
                    self.asked.append(read_request(connection))
                    told(connection) if callable(told) else connection.sendall(told)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                    self.client_left.set()

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the scripted server still waits"


def read_request(connection):
    """Return the request line, the headers and the body of one request."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += more_of(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += more_of(connection)
    return line, headers, body


def more_of(connection):
    """Return what comes next; a client that gives up may leave before it has sent all."""
    if not (piece := connection.recv(65536)):
        raise ConnectionError("the client has left")
    return piece


@pytest.fixture
def scripted():
    """Return what starts a scripted server."""
    servers = []

    def start(*answers, port=0):
        servers.append(Scripted(answers, port))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def call_with_threads(url, method, *arguments, options, **how):
    with Client(url, **options) as client:
        result = getattr(client, method)(*arguments, **how)
        if method == "stream":
            with closing(result):
                return list(result)
        return result


def call_with_asyncio(url, method, *arguments, options, **how):
    async def run():
        async with AsyncClient(url, **options) as client:
            result = getattr(client, method)(*arguments, **how)
            if method == "stream":
                async with aclosing(result):
                    return [output async for output in result]
            return await result

    return asyncio.run(run())


@pytest.fixture(params=[call_with_threads, call_with_asyncio], ids=["threads", "asyncio"])
def call(request):
    """Return ``call(url, method, *arguments)``: made by a new client, once for each kind of it."""

    def make(url, method, *arguments, timeout_s=None, request_id=None, **options):
        how = {"timeout_s": timeout_s, "request_id": request_id}
        how |= {name: options.pop(name, None) for name in ("envelope", "raw", "end")}
        given = {name: value for name, value in how.items() if value is not None}
        return request.param(url, method, *arguments, options=options, **given)

    return make


@pytest.fixture
def waits(monkeypatch):
    """Make waiting between tries take no time; the list of waits may hold a function to call."""
    found = []

    def sleep(seconds):
        found.append(seconds)

    async def async_sleep(seconds):
        sleep(seconds)

    monkeypatch.setattr("servekit_client.client.sleep", sleep)
    monkeypatch.setattr("servekit_client.async_client.sleep", async_sleep)
    return found

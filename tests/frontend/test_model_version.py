# SPDX-License-Identifier: Apache-2.0
"""``X-Model-Version``: in what a model answers, and nowhere else."""

import socket
from functools import partial
from types import SimpleNamespace

import pytest

from servekit.errors import QueueFull, ServekitError
from servekit.extension import BackgroundExchange, BaseExchange, HttpResponse
from servekit.extension.http import NO_LENGTH
from servekit.frontend.http.client_address import ClientAddresses
from servekit.frontend.http1.connection import Http1Connection
from servekit.frontend.http1.listener import Http1Listener
from servekit.frontend.middleware.access_log import AccessLogging

from .conftest import post, receive
from .stand_ins import make_host

OK = {"timing": b"queue;dur=1", "request_id": "r"}


def respond(response, exchange):
    exchange.respond(response)


def stream(exchange):
    head = HttpResponse(200, b"", "text/plain", "r", length=NO_LENGTH)
    head.model_version = exchange.model_version
    exchange.begin_stream(None, head).end()
    exchange.end_stream(0)


def fail(exchange):
    exchange.fail(QueueFull(), "r")


def fail_in_a_filter(exchange):
    exchange.add_filter(lambda _response: None)
    exchange.respond(HttpResponse(200))


ANSWERS = {
    "a prediction": partial(respond, HttpResponse(200, b"1", "text/plain", **OK)),
    "another status": partial(respond, HttpResponse(201, b"1", "text/plain", **OK)),
    "with fields": partial(respond, HttpResponse(200, b"1", "", fields=[("a", "b")], **OK)),
    "a stream": stream,
    "an error": fail,
    "a plugin that fails": fail_in_a_filter,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_every_answer_of_a_model_has_its_version(answer):
    def handle(exchange, request):
        if request.target == b"/echo/predict":
            exchange.model_version = b"2.0"
            answer(exchange)
        else:
            exchange.respond(HttpResponse(204))

    host = make_host(handle)
    ours, client = socket.socketpair()
    with client:
        ours.setblocking(False)
        host.connections.add(connection := Http1Connection(ours, None, Http1Listener(host, [])))
        for path, expected in (("/echo/predict", "2.0"), ("/ping", None)):
            client.sendall(post(b"1", path=path))
            host.loop.run(nowait=True)
            headers = receive(client)[1]
            if headers.get("transfer-encoding"):
                assert client.recv(100) == b"0\r\n\r\n"
            assert headers.get("x-model-version") == expected
        connection.close()


class Client(BaseExchange):
    """Keeps its responses."""

    is_encrypted, subject = False, ""

    def __init__(self):
        super().__init__(("192.0.2.7", 5))
        self.sent = []

    def send(self, response):
        self.observe_end(response.status, len(response.body))
        self.sent.append(response)


def test_a_request_that_may_become_a_job_has_the_version_too():
    client = Client()
    job = BackgroundExchange(client)
    job.model_version = b"2"
    job.respond(HttpResponse(200))
    later, kept = BackgroundExchange(Client()), []
    later.model_version = b"3"
    later.leave(kept.append)
    later.respond(HttpResponse(200))

    assert [each.model_version for each in (*client.sent, *kept)] == [b"2", b"3"]


@pytest.mark.parametrize("version", [b"", b"2"])
def test_the_access_log_names_the_model_that_answered(version):
    logged = []
    log = SimpleNamespace(add=lambda **members: logged.append(members))

    def proceed(exchange, request):
        request.route = SimpleNamespace(row=SimpleNamespace(name="m"))
        exchange.model_version = version
        exchange.fail(ServekitError(), "r")

    request = SimpleNamespace(
        method=b"POST",
        version="1.1",
        target=b"/m/predict",
        request_id="r",
        identity=None,
        headers={},
    )
    AccessLogging(log, ClientAddresses(()))(Client(), request, proceed)

    (line,) = logged
    assert (line.get("model"), line.get("model_version")) == (
        ("m", "2") if version else (None, None)
    )

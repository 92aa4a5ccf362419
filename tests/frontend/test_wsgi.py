# SPDX-License-Identifier: Apache-2.0
"""Responses of the Flask app: whole ones, and streams that wait for their clients."""

import gevent
import pytest

from servekit.extension.http import HttpRequest
from servekit.frontend.http.client_address import ClientAddresses
from servekit.frontend.server import wsgi
from servekit.frontend.server.wsgi import call_application


class StandInExchange:
    """Keeps what it is given; its client takes the pieces when the test says so."""

    peer = ("127.0.0.1", 1)
    is_encrypted = False

    def __init__(self):
        self.is_closed, self.is_reset, self.is_waiting = False, False, False
        self.prediction = self.head = self.ended = self.failure = None
        self.pieces = []

    def respond(self, response):
        self.head = response

    def fail(self, error, _request_id):
        self.failure = error
        self.stream.fail(error)

    def begin_stream(self, stream, response):
        self.stream, self.head = stream, response
        return self

    def write(self, piece):
        self.pieces.append(piece)
        return True

    def end(self):
        self.pieces.append(b"END")

    def end_stream(self, size, status=200):
        self.ended = (size, status)

    def reset(self):
        self.is_reset = self.is_closed = True


def make_request(method=b"GET"):
    return HttpRequest(method, b"/", {}, b"", keeps_alive=True, version="1.1", request_id="r")


def answering(pieces, headers=(), status="200 OK"):
    def application(_environ, start_response):
        start_response(status, [("Content-Type", "text/plain"), *headers])
        return iter(pieces)

    return application


@pytest.fixture
def exchange():
    return StandInExchange()


def call(application, exchange, method=b"GET"):
    call_application(application, ("h", 1), ClientAddresses(()), exchange, make_request(method))


def test_a_response_with_a_length_is_sent_whole(exchange):
    call(answering([b"a", b"b"], headers=[("Content-Length", "2")]), exchange)

    assert (exchange.head.body, exchange.pieces) == (b"ab", [])


def test_a_response_without_a_length_is_streamed(exchange):
    call(answering([b"a", b"", b"bc"]), exchange)

    assert exchange.head.is_streamed
    assert (exchange.pieces, exchange.ended) == ([b"a", b"bc", b"END"], (3, 200))


@pytest.mark.parametrize(
    ("method", "status"), [(b"HEAD", "200 OK"), (b"GET", "304 Not Modified"), (b"GET", "204 None")]
)
def test_a_response_without_content_is_not_a_stream(exchange, method, status):
    call(answering([], status=status), exchange, method)

    assert not exchange.head.is_streamed


def test_the_next_piece_is_made_when_the_client_has_taken_the_one_before(exchange):
    made = []
    pieces = (made.append(number) or b"x" for number in range(3))
    exchange.is_waiting = True
    greenlet = gevent.spawn(call, answering(pieces), exchange)
    gevent.sleep(0)

    assert made == [0]
    exchange.is_waiting = False
    greenlet.join(60)
    assert made == [0, 1, 2]


def test_a_client_that_takes_nothing_is_cut_off(exchange, monkeypatch):
    monkeypatch.setattr(wsgi, "STUCK_S", 0.05)
    exchange.is_waiting = True
    with gevent.Timeout(60):
        call(answering([b"a", b"b"]), exchange)

    assert (exchange.is_reset, exchange.pieces) == (True, [b"a"])


def test_a_client_that_disconnects_ends_the_view(exchange):
    ended = []

    def endless():
        try:
            yield b"a"
            gevent.sleep(60)
        finally:
            ended.append(True)

    greenlet = gevent.spawn(call, answering(endless()), exchange)
    gevent.sleep(0)
    exchange.is_closed = True
    exchange.prediction.cancel()
    greenlet.join(60)

    assert ended == [True]


def test_a_stream_whose_view_fails_is_cut_off(exchange):
    def failing():
        yield b"a"
        raise ValueError("wrong")

    call(answering(failing()), exchange)

    assert (exchange.ended, exchange.is_reset) == ((1, 500), True)

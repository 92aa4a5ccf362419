# SPDX-License-Identifier: Apache-2.0
"""Exchanges that continue without their client."""

import pytest

from servekit.extension import BackgroundExchange, BaseExchange, HttpResponse
from servekit.extension.http import NO_LENGTH


class Client(BaseExchange):
    """An exchange that only keeps its responses."""

    is_encrypted, subject = False, ""

    def __init__(self):
        super().__init__(("192.0.2.7", 5))
        self.sent = []

    def send(self, response):
        self.sent.append(response.status)


class Prediction:
    """Counts how often it is cancelled."""

    is_sent, cancelled = True, 0

    def cancel(self):
        self.cancelled += 1


@pytest.fixture
def background():
    """Return the exchange of a client, one that stands in for it, and what is observed of it."""
    client = Client()
    exchange = BackgroundExchange(client)
    exchange.prediction = Prediction()
    ends = []
    exchange.add_observer(lambda status, size: ends.append((status, size)))
    return client, exchange, ends


def test_a_client_that_waits_gets_the_response(background):
    client, exchange, ends = background
    exchange.respond(HttpResponse(200, b"body"))

    assert (client.sent, ends) == ([200], [(200, 4)])


def test_a_client_that_has_left_does_not(background):
    client, exchange, _ = background
    kept = []
    exchange.leave(kept.append)
    client.respond(HttpResponse(202))
    exchange.respond(HttpResponse(200, b"body"))

    assert (client.sent, [response.status for response in kept]) == ([202], [200])
    assert client.prediction is None


def test_a_client_that_disconnects_cancels_the_prediction(background):
    client, exchange, ends = background
    client.is_closed = True
    client.prediction.cancel()
    exchange.respond(HttpResponse(200))

    assert (exchange.prediction.cancelled, ends, client.sent) == (1, [(None, 0)], [])


def test_a_client_that_only_ends_its_sending_side_still_gets_the_response(background):
    client, exchange, _ = background
    client.prediction.cancel()
    exchange.respond(HttpResponse(200))

    assert (exchange.is_cancelled, client.sent) == (True, [200])


@pytest.mark.parametrize("has_left", [False, True])
def test_a_stream_is_refused_and_dropped(background, has_left):
    client, exchange, _ = background
    kept = []
    if has_left:
        exchange.leave(kept.append)
    writer = exchange.begin_stream(object(), HttpResponse(200, length=NO_LENGTH))
    sent = [response.status for response in kept] if has_left else client.sent

    assert (sent, exchange.is_closed, exchange.prediction.cancelled) == ([406], True, 1)
    assert writer.write(b"piece")
    writer.end()
    exchange.end_stream(5)

# SPDX-License-Identifier: Apache-2.0
"""The middleware follows the orders that it finds, and writes calls in a thread."""

import logging
from time import time

import gevent
import pytest
from flask import Flask
from servekit_record.order import RecordingOrder, Shelf
from servekit_record.recorder import CallRecorder
from servekit_record.routes import create_blueprint

from servekit.extension import BaseExchange, HttpRequest, HttpResponse
from servekit.settings import Settings

SOON_S = 60.0


class Server:
    """What the recorder asks of a front-end."""

    look = is_busy = None
    settings, models = Settings(), {}

    def call_every(self, _interval_s, function):
        self.look = function

    def wait_for(self, is_busy):
        self.is_busy = is_busy

    def find_model(self, _request):
        return "m"

    name_model = find_model


class Recorded:
    """A recorder, its directory, and the calls that it sees."""

    def __init__(self, directory):
        self.directory, self.server = directory, Server()
        self.shelf = Shelf(directory)
        self.recorder = CallRecorder(self.server, directory)

    def order(self, id_, **more):
        self.shelf.clear()
        self.shelf.ask(RecordingOrder(id=id_, **{"until_s": time() + SOON_S, **more}))
        self.look()

    def look(self):
        self.server.look()
        with gevent.Timeout(60):
            while self.recorder.is_writing:
                gevent.sleep(0.001)

    def begin(self, body=b"1"):
        """Begin a call, and return its exchange."""
        exchange = BaseExchange(None)
        request = HttpRequest(b"POST", b"/m/predict", {}, body, True, "1.1", request_id="r")
        self.recorder(exchange, request, lambda *_: None)
        return exchange

    def end(self, exchange):
        exchange.model_version = b"1.0"
        exchange.filter_stream(HttpResponse(200, b"answer"))
        exchange.observe_end(200, 6)

    @property
    def written(self):
        """How many calls each recording has in its files."""
        return {
            path.name.partition("-")[0]: path.read_bytes().count(b"\n")
            for path in self.directory.glob("*.calls")
        }


@pytest.fixture
def recorded(tmp_path):
    return Recorded(tmp_path)


def test_calls_are_written_while_there_is_an_order(recorded):
    recorded.end(recorded.begin())
    recorded.order("a")
    recorded.end(recorded.begin())
    assert recorded.server.is_busy()
    recorded.look()

    assert recorded.written == {"a": 1}
    assert not recorded.server.is_busy()


def test_a_call_that_began_before_the_end_is_recorded_and_a_later_one_is_not(recorded):
    recorded.order("a")
    begun = recorded.begin()
    recorded.shelf.ask(RecordingOrder(id="a", until_s=time()))
    recorded.look()
    recorded.end(begun)
    recorded.end(recorded.begin())
    recorded.look()

    assert recorded.written == {"a": 1}


def test_a_call_is_never_put_into_the_next_recording(recorded):
    recorded.order("a")
    begun = recorded.begin()
    recorded.order("b", redact=["x-who"])
    recorded.end(begun)
    recorded.look()

    assert recorded.written == {}


def test_a_recording_that_cannot_be_written_is_logged_once(recorded, caplog):
    recorded.order("a")
    recorded.shelf.calls_path(RecordingOrder(id="a")).mkdir()
    with caplog.at_level(logging.ERROR, "servekit.frontend"):
        for _ in range(3):
            recorded.end(recorded.begin())
            recorded.look()
    assert len(caplog.records) == 1
    assert "calls cannot be recorded: " in caplog.text

    recorded.shelf.calls_path(RecordingOrder(id="a")).rmdir()
    recorded.order("b")
    recorded.end(recorded.begin())
    recorded.look()
    assert recorded.written == {"b": 1}


@pytest.fixture
def manager(recorded):
    """A client of the routes of operators."""
    app = Flask("test")
    app.register_blueprint(create_blueprint(recorded.server, recorded.directory))
    return app.test_client()


def test_a_recording_has_begun_when_every_front_end_records(recorded, manager):
    begun = gevent.spawn(manager.post, "/recordings", json={})
    begun.join(1.0)
    assert not begun.ready(), "no front-end has looked"

    while not begun.ready():
        recorded.look()
        gevent.sleep(0.001)
    recorded.end(recorded.begin())
    recorded.look()
    assert begun.value.status_code == 201
    assert [*recorded.written.values()] == [1]


def test_calls_are_complete_when_a_front_end_has_written_all_after_the_end(recorded, manager):
    def is_complete():
        return manager.get("/recordings/a/calls").json["is_complete"]

    recorded.order("a")
    recorded.look()
    recorded.end(recorded.begin())
    recorded.shelf.ask(RecordingOrder(id="a", until_s=time()))
    assert not is_complete()
    recorded.look()
    assert not is_complete()  # what ended during that look has not been written
    recorded.look()
    assert is_complete()

    manager.delete("/recordings/a")
    recorded.look()
    assert [*recorded.directory.iterdir()] == []


def test_large_bodies_of_requests_are_not_copied(recorded):
    recorded.order("a")
    recorded.end(recorded.begin(b"x" * ((4 << 20) + 1)))
    recorded.look()

    assert recorded.written == {}

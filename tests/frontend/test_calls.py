# SPDX-License-Identifier: Apache-2.0
"""Calls of services in a front-end: requests of their callers for other models."""

import socket
from time import monotonic

import gevent
import pytest

from servekit.errors import InputError, QueueFull
from servekit.extension.http import HttpResponse
from servekit.frontend.batching.call_port import CallPort
from servekit.frontend.routing.calls import ModelCalls
from servekit.ipc.batches import VALUE
from servekit.ipc.calls import CallAnswer, CancelCall, ModelCall
from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.table import ModelRow

WAIT_S = 60.0
CALLER = ModelRow("caller", "1", "", [], 1, 0.0, 1.0, 1, manifest={"calls": ["other", "absent"]})


class Bodies:
    """Keeps every body outside shared memory."""

    def lay(self, pieces):
        return b"".join(pieces)


class Route:
    """Holds the predictions that it is asked for."""

    bodies = Bodies()

    def __init__(self):
        self.begun = []
        self.cancelled = 0
        self.refusal = None

    def find_call(self, model, endpoint):
        return self if (model, endpoint) == ("other", "") else None

    def begin(self, exchange, request):
        exchange.prediction = self
        self.begun.append((exchange, request))
        if self.refusal is not None:
            exchange.fail(self.refusal, request.request_id)

    def cancel(self):
        self.cancelled += 1


@pytest.fixture
def route():
    return Route()


class Worker:
    """A worker that calls, and the port that answers it."""

    def __init__(self, route, caller=CALLER):
        self.sock, other = socket.socketpair()
        self.sock.settimeout(WAIT_S)
        calls = ModelCalls(route)
        self.port = CallPort(
            gevent.get_hub().loop, other, lambda call, answer: calls.begin(caller, call, answer)
        )
        self._reader = FrameReader(self.sock, CallAnswer)
        self._heard = []

    def send(self, *messages):
        for message in messages:
            self.sock.sendall(encode_frame(message))
        let_read()

    def hear(self):
        while not self._heard:
            self._heard = self._reader.read()
        return self._heard.pop(0)


def let_read():
    """Let the loop read what was sent; a timer that is due may come before it in one turn."""
    for _ in range(2):
        gevent.sleep(0.01)


@pytest.fixture
def worker(route):
    worker = Worker(route)
    yield worker
    worker.port.close()
    worker.sock.close()


def call(number=1, model="other", **members):
    values = {"body": b"in", "request_id": "r7", "deadline": float("inf")} | members
    return ModelCall(number, model, **values)


def test_a_call_is_a_request_that_inherits_what_the_calling_one_had(worker, route):
    headers = {"traceparent": "00-1", "x-user": "ada", "?verbose": "1"}
    deadline = monotonic() + 600
    worker.send(call(headers=headers, deadline=deadline, identity=("ada", {"team": "x"})))
    exchange, request = route.begun[0]
    timeout_ms = int(request.headers.pop(b"x-request-timeout-ms"))
    exchange.respond(HttpResponse(200, b"out", VALUE))

    assert (request.body, request.request_id, request.identity.name) == (b"in", "r7", "ada")
    assert request.headers == {
        b"traceparent": b"00-1", b"x-user": b"ada",
        b"content-type": VALUE.encode(), b"accept": VALUE.encode(),
    }  # fmt: skip
    assert 500_000 < timeout_ms <= 600_000
    assert worker.hear() == CallAnswer(1, 200, b"out")


def test_answers_come_in_any_order(worker, route):
    worker.send(call(1), call(2))
    for exchange, _ in reversed(route.begun):
        exchange.respond(HttpResponse(200, b"out", VALUE))

    assert [worker.hear().number for _ in range(2)] == [2, 1]


@pytest.mark.parametrize(
    ("message", "status", "detail"),
    [
        (call(model="third"), 403, "calls of caller does not name third"),
        (call(model="absent"), 404, "no model is called absent"),
        (call(deadline=0.0), 504, "Deadline exceeded"),
    ],
)
def test_what_is_refused_at_once(worker, route, message, status, detail):
    worker.send(message)
    answer = worker.hear()

    assert (answer.status, answer.detail, route.begun) == (status, detail, [])


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (QueueFull(), CallAnswer(1, 429, detail="Queue full")),
        (
            InputError("x: is odd", [{"field": "x", "message": "is odd"}]),
            CallAnswer(1, 422, b"", "x: is odd", [{"field": "x", "message": "is odd"}]),
        ),
    ],
)
def test_an_error_has_what_a_client_would_be_told(worker, route, error, answer):
    route.refusal = error
    worker.send(call())

    assert worker.hear() == answer


def test_a_call_that_is_cancelled_is_dropped_and_not_answered(worker, route):
    worker.send(call(1), call(2), CancelCall(1), CancelCall(7))
    for exchange, _ in route.begun:
        exchange.respond(HttpResponse(200, b"out", VALUE))

    assert (route.cancelled, worker.hear().number) == (1, 2)


@pytest.mark.parametrize("how", ["close", "garbage"])
def test_the_calls_of_a_worker_that_is_lost_are_dropped(worker, route, how):
    worker.send(call(1), call(2))
    if how == "close":
        worker.port.close()
    else:
        worker.sock.sendall(b"\1\0\0\0?")
        let_read()

    assert route.cancelled == 2


def test_large_answers_are_sent_as_the_worker_reads(worker, route):
    worker.send(call(1), call(2))
    for number, (exchange, _) in enumerate(route.begun):
        exchange.respond(HttpResponse(200, b"%d" % number * 3_000_000, VALUE))
    got = []
    reading = gevent.get_hub().threadpool.spawn(lambda: got.extend(worker.hear() for _ in range(2)))
    reading.get(timeout=WAIT_S)

    assert [len(answer.body) for answer in got] == [3_000_000, 3_000_000]


@pytest.mark.parametrize(
    ("status", "expected", "detail"),
    [
        (200, 406, "text/csv is not an output of a call"),
        (404, 404, "the answer is text/csv"),
    ],
)
def test_an_answer_with_a_content_type_of_its_own_is_an_error(
    worker, route, status, expected, detail
):
    worker.send(call())
    ((exchange, _),) = route.begun
    exchange.respond(HttpResponse(status, b"1", "text/csv"))

    assert worker.hear() == CallAnswer(1, expected, detail=detail)


def test_a_stream_is_no_output_of_a_call(worker, route):
    worker.send(call())
    ((exchange, _),) = route.begun
    writer = exchange.begin_stream(None, HttpResponse(200))
    writer.write(b"piece")

    assert (worker.hear().status, route.cancelled) == (406, 1)

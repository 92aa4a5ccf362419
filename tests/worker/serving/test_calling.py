# SPDX-License-Identifier: Apache-2.0
"""A real worker process calls another model over the socket that it sends with its greeting."""

import pytest

from servekit.ipc.batches import Predict
from servekit.ipc.calls import CallAnswer, CallRequest, CancelCall
from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import BootFailed
from servekit.worker.codecs.value import value as codec
from tests.worker.worker_process import PATIENCE_S, item

OK = "application/json"


class Called:
    """Answers calls as a front-end does."""

    def __init__(self, channel):
        (self.sock,) = channel.calls
        self.sock.settimeout(PATIENCE_S)
        self._reader = FrameReader(self.sock, CallRequest)

    def hear(self):
        while not (messages := self._reader.read()):
            pass
        return messages[0]

    def answer(self, call, value=None, status=200):
        body = b"" if value is None else codec.encode(value)
        self.sock.sendall(encode_frame(CallAnswer(call.number, status, body)))


@pytest.fixture
def channel(start):
    return start("calling:Ask", calls=["other"]).boot().connect()


def test_a_call_is_made_and_answered_while_predict_runs(channel):
    called = Called(channel)
    channel.send(Predict(1, [item([1, 2], request_id="r7")]))
    call = called.hear()
    called.answer(call, {"sum": 3})
    (answer,) = channel.receive().answers

    assert (call.model, call.request_id, codec.decode(call.body, {})) == ("other", "r7", [1, 2])
    assert answer == ("", OK, b'{"prediction":{"sum":3}}')


@pytest.mark.parametrize(("status", "error"), [(500, "CallError"), (429, "CallUnavailable")])
def test_an_error_that_is_not_caught_is_that_of_the_batch(channel, status, error):
    called = Called(channel)
    channel.send(Predict(1, [item(1)]))
    called.answer(called.hear(), status=status)

    assert channel.receive().answers[0][0] == error


def test_a_client_that_disconnects_ends_the_call(channel):
    called = Called(channel)
    channel.send(Predict(1, [item(1)]))
    call = called.hear()
    channel.cancelled.mark(1, 0)

    assert called.hear() == CancelCall(call.number)
    assert channel.receive().answers[0][0] == "CallUnavailable"


def test_a_front_end_that_is_replaced_ends_its_calls_and_the_next_one_gets_others(start):
    worker = start("calling:Ask", calls=["other"]).boot()
    first = worker.connect()
    first.send(Predict(1, [item(1)]))
    Called(first).hear()
    for sock in (first.sock, *first.calls):
        sock.close()
    channel = worker.connect()
    called = Called(channel)
    channel.send(Predict(1, [item(2)]))
    call = called.hear()
    called.answer(call, "two")

    assert channel.receive().answers == [("", OK, b'{"prediction":"two"}')]


def test_examples_are_answered_by_the_stand_in(start):
    example = {"input": 1, "output": "other for 1"}
    worker = start("calling:Ask", calls=["other"], examples=[example])

    worker.boot()


def test_a_model_that_names_no_others_has_no_socket_and_cannot_call(start):
    worker = start("calling:Ask").boot()
    channel = worker.connect()

    assert channel.calls == []
    assert channel.predict(item(1))[0][0] == "CallError"
    assert "calls in model.toml does not name it" in worker.log.read_text()


def test_an_example_without_a_stand_in_says_what_is_missing(start, tmp_path):
    (tmp_path / "bare.py").write_text(
        "from servekit import Service\n"
        "class Bare(Service):\n"
        "    def load(self, context):\n        self.context = context\n"
        "    def predict(self, batch):\n        return [self.context.call('other', 1)]\n"
    )
    worker = start("bare:Bare", directory=tmp_path, calls=["other"], examples=[{"input": 1}])
    said = worker.receive()

    assert isinstance(said, BootFailed)
    assert "define stand_in() for examples and tests" in worker.log.read_text()

# SPDX-License-Identifier: Apache-2.0
"""Requests with several inputs for services that stream, without sockets."""

import json
import math
from types import SimpleNamespace

import pytest

from servekit import Done, InputError, Service
from servekit.ipc.batches import Open
from servekit.ipc.control import Launch
from servekit.worker.envelopes.table import EnvelopeTable
from servekit.worker.streaming.stream import Stream
from servekit.worker.streaming.streams import ActiveStreams
from tests.worker.batches import loaded
from tests.worker.envelopes.test_batches import Marks, call
from tests.worker.worker_process import item

SLOTS, LIMIT = 4, 5000


class Letters(Service):
    """Yields the letters of a text."""

    closed = 0

    def stream(self, text):
        try:
            for letter in text:
                if letter == "!":
                    raise InputError(f"not {text}")
                if letter == "?":
                    raise ValueError("as asked")
                yield letter
        finally:
            self.closed += 1


class LettersInSlots(Service):
    """Does the same with slots."""

    closed = 0

    def admit(self, text):
        return iter(text)

    def step(self, slots):
        return [self.answer(next(slot, Done())) for slot in slots]

    def answer(self, found):
        wrong = {"!": InputError("not this"), "?": ValueError("as asked")}
        return wrong.get(found, found) if isinstance(found, str) else found

    def evict(self, slot):
        self.closed += 1


class Worker:
    """The streams of one worker, and a channel that keeps what is sent."""

    def __init__(self, service):
        made = loaded(service, max_batch_size=SLOTS)
        launch = Launch("", b'{"name":"m"}', 0, 1, 1, 1, SLOTS, LIMIT, 0, LIMIT)
        self._envelopes = EnvelopeTable(made.interface, made.codecs, launch)
        self._made, self._opened = made, 0
        self.streams = ActiveStreams(self._envelopes, SLOTS, LIMIT)
        shared = SimpleNamespace(cancelled=None, lay_out=lambda answers, _pieces=None: answers)
        self.channel = SimpleNamespace(shared=shared)

    def open(self, *inputs, envelope="Bare", is_stream=False):
        self._opened += 1
        sent = item(list(inputs))
        sent.protocol = call(envelope)
        if is_stream:
            sent.protocol = type(sent.protocol)(sent.protocol.envelope, {}, is_stream=True)
        message = Open(self._opened, self._opened - 1, sent, math.inf)
        stream = Stream(message, sent, self.channel, self._made.predictor)
        stream.stepping = self._made.steppings[self._made.predictor]
        self.streams.put(stream)

    def turn(self):
        """Return what a turn brings by the number of its request: the parts that end it."""
        return [(part.stream, part.end) for _, part in self.streams.turn() if part.end is not None]

    def run(self):
        found = []
        while self.streams.is_busy:
            found += self.turn()
        return found

    def read(self):
        """Return the pieces of all streams, and how each has ended, as they come."""
        found = []
        while self.streams.is_busy:
            for _, part in self.streams.turn():
                found += [part.body.decode()] if part.body else []
                found += [told(part.end) if part.end[0] else "end"] if part.end else []
        return found


SERVICES = pytest.mark.parametrize("kind", [Letters, LettersInSlots])


def told(end):
    """Return the answer, or the name of the error."""
    error, _, body = end
    return error or json.loads(body)


@SERVICES
@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(["ab", "c"], id="two"),
        pytest.param(["", "abc", ""], id="some without outputs"),
        pytest.param(["a"] * 9, id="more than there are slots"),
        pytest.param([], id="none"),
        pytest.param(["a"], id="one"),
    ],
)
def test_a_request_is_answered_when_the_last_of_its_inputs_ends(kind, inputs):
    service = kind()
    worker = Worker(service)
    worker.open(*inputs)
    ((number, end),) = worker.run()

    assert (number, told(end)) == (1, [[*text] for text in inputs])
    assert service.closed == len(inputs)


@SERVICES
def test_requests_take_turns(kind):
    worker = Worker(kind())
    worker.open("abc", "d")
    worker.open("e")
    worker.open("f", "g", "h")

    found = [(number, told(end)) for number, end in worker.run()]

    assert found[0] == (2, [["e"]])
    assert dict(found[1:]) == {1: [["a", "b", "c"], ["d"]], 3: [["f"], ["g"], ["h"]]}


@SERVICES
@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        pytest.param(["abc", "a!", "d"], "InputError", id="one refuses"),
        pytest.param(["a!", "b!", "c!"], "InputError", id="all refuse at once"),
        pytest.param(["abc", "a?", "d"], "PredictFailed", id="one fails"),
        pytest.param(["!", *["abc"] * 9], "InputError", id="others wait"),
    ],
)
def test_the_first_error_ends_the_request_and_its_other_inputs(kind, inputs, error):
    service = kind()
    worker = Worker(service)
    worker.open(*inputs)
    worker.open("xy")
    found = {number: told(end) for number, end in worker.run()}

    assert found == {1: error, 2: [["x", "y"]]}
    assert service.closed <= len(inputs) + 1


@SERVICES
def test_a_client_that_leaves_ends_all_inputs_of_its_request(kind):
    service = kind()
    worker = Worker(service)
    worker.open(*["abc"] * 6)
    assert worker.turn() == worker.turn() == []
    worker.channel.shared.cancelled = Marks(0)
    ((number, (error, _, _)),) = worker.turn()

    assert (number, bool(error)) == (1, True)
    assert service.closed == SLOTS
    assert not worker.streams.is_busy


@SERVICES
@pytest.mark.parametrize("inputs", [[], ["a", "b"]])
def test_a_stream_has_one_input(kind, inputs):
    worker = Worker(kind())
    worker.open(*inputs, is_stream=True)
    ((_, end),) = worker.run()

    assert told(end) == "InputError"
    assert f"a stream has one input, got {len(inputs)}" in json.loads(end[2])["detail"]


@SERVICES
@pytest.mark.parametrize(
    ("inputs", "pieces"),
    [
        pytest.param(
            ["ab", "c"],
            ["<0:a>", "<1:c>", "<0:b>", "[1]", "[0].", "end"],
            id="two take turns",
        ),
        pytest.param(["ab"], ["<0:a>", "<0:b>", "[0].", "end"], id="one"),
        pytest.param(["", "a", ""], ["[0]", "<1:a>", "[2]", "[1].", "end"], id="some are empty"),
        pytest.param(["", ""], ["[0]", "[1].", "end"], id="all are empty"),
    ],
)
def test_the_outputs_of_all_inputs_are_one_stream(kind, inputs, pieces):
    service = kind()
    worker = Worker(service)
    worker.open(*inputs, envelope="Several", is_stream=True)

    assert worker.read() == pieces
    assert service.closed == len(inputs)


@SERVICES
def test_inputs_of_a_stream_wait_for_slots(kind):
    worker = Worker(kind())
    worker.open(*["a"] * 9, envelope="Several", is_stream=True)
    found = worker.read()

    assert found[-2:] == ["[8].", "end"]
    assert sorted(found[:-2]) == sorted(
        [*(f"<{place}:a>" for place in range(9)), *(f"[{place}]" for place in range(8))]
    )


@SERVICES
@pytest.mark.parametrize(
    ("inputs", "pieces"),
    [
        pytest.param(["abc", "a!", "d"], ["<0:a>", "<1:a>", "<2:d>", "<0:b>", "[2]"], id="refused"),
        pytest.param(["abc", "a#", "de"], ["<0:a>", "<1:a>", "<2:d>", "<0:b>"], id="unwritable"),
        pytest.param(["#", "#", "a"], [], id="at once"),
        pytest.param(["#", *["abc"] * 9], [], id="others wait"),
    ],
)
def test_nothing_follows_the_error_of_a_stream(kind, inputs, pieces):
    service = kind()
    worker = Worker(service)
    worker.open(*inputs, envelope="Several", is_stream=True)
    *before, error = worker.read()

    assert before == pieces
    assert error in ("InputError", "ResultNotEncodable")
    assert service.closed == min(SLOTS, len(inputs))

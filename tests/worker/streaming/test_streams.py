# SPDX-License-Identifier: Apache-2.0
"""Services whose outputs come one by one, in a real worker process."""

import json
import math
import re
from time import monotonic

import pytest

from servekit.ipc.batches import Freed, Open, Parts, Ping, Pong, ProtocolCall, SlotsReply
from tests.worker.worker_process import item, parts_of, run

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
JSON = "application/json"
KINDS = ["streams:Generator", "streams:Slots", "async_streams:Generator", "async_streams:Slots"]
BOTH = pytest.mark.parametrize("service", KINDS)


class Streams:
    """Opens streams on one channel, and collects what comes of them."""

    def __init__(self, worker):
        self.channel = worker.connect()
        self.opened = 0
        self.found: dict[int, list] = {}
        self.pieces: dict[int, list] = {}  #: those without outputs, too
        self.ends: dict[int, tuple[str, bytes]] = {}
        self.order: list[int] = []

    def open(self, value, accept=EVENTS, until=math.inf, **keys):
        self.opened += 1
        self.found[self.opened], self.pieces[self.opened] = [], []
        message = Open(self.opened, self.opened - 1, item(value, accept=accept, **keys), until)
        self.channel.send(message)
        return self.opened

    def receive(self):
        for message in self.channel.receive_some():
            self.take(message)

    def take(self, message):
        assert isinstance(message, Parts | SlotsReply)
        for part in parts_of(message):
            assert part.stream not in self.ends, "a part after the end"
            self.pieces[part.stream].append(part.body)
            if part.outputs and part.media_type:
                self.found[part.stream].append(part.body)
                self.order.append(part.stream)
            if part.end is not None:
                error, media_type, body = part.end
                self.ends[part.stream] = (error or media_type, self.channel.bytes_of(body))

    def wait_for(self, *streams):
        while not self.ends.keys() >= set(streams or self.found):
            self.receive()

    def wait_for_outputs(self, stream, count):
        while len(self.found[stream]) < count:
            self.receive()

    def leave(self, stream):
        self.channel.cancelled.mark(stream, stream - 1)


@pytest.fixture
def streams(start):
    def open_streams(service, **keys):
        worker = start(service, **keys).boot()
        found = Streams(worker)
        found.worker = worker
        return found

    return open_streams


@BOTH
def test_each_output_is_an_event(streams, service):
    found = streams(service)
    number = found.open({"to": 3})
    found.wait_for()

    assert found.channel.hello.slots == 32
    assert b"".join(found.found[number]) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert found.ends[number] == ("", b"")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(LINES, b'{"output":0}\n{"output":1}\n', id="JSON lines"),
        pytest.param("application/jsonl", b'{"output":0}\n{"output":1}\n', id="their other name"),
        pytest.param(f"{LINES};q=0.5, {EVENTS}", b"data: 0\n\ndata: 1\n\n", id="the liked one"),
        pytest.param(f"{JSON}, {EVENTS}", b"data: 0\n\ndata: 1\n\n", id="as good as one answer"),
    ],
)
def test_accept_says_how_outputs_are_written(streams, accept, expected):
    found = streams("streams:Generator")
    number = found.open({"to": 2}, accept)
    found.wait_for()

    assert b"".join(found.found[number]) == expected


@pytest.mark.parametrize(
    "accept", ["", "*/*", JSON, f"{EVENTS};q=0, */*", f"{JSON}, {EVENTS};q=0.9"]
)
@BOTH
def test_client_that_takes_no_stream_gets_one_answer(streams, service, accept):
    found = streams(service)
    number = found.open({"to": 3}, accept)
    found.wait_for()

    assert found.ends[number] == (JSON, b'{"prediction":[0,1,2]}')
    assert found.found[number] == []


def test_one_answer_goes_by_shared_memory_if_it_is_large(streams):
    found = streams("streams:Generator")
    number = found.open({"to": 3000}, JSON)
    found.wait_for()

    assert len(found.ends[number][1]) > 4096


@pytest.mark.parametrize(
    ("service", "value", "outputs"),
    [
        pytest.param("streams:GeneratorPredict", "ab", [b'"a"', b'"b"'], id="generator predict"),
        pytest.param("streams:Sparse", 0, [b"2", b"4", b"6"], id="None, lists, and Done with one"),
        pytest.param("async_streams:GeneratorPredict", "ab", [b'"a"', b'"b"'], id="async predict"),
        pytest.param("async_streams:Iterators", "ab", [b'"A"', b'"B"'], id="awaited iterator"),
        pytest.param(
            "streams:Slots", {"to": 1, "then": "more"}, [b"0", b"1", b'"done"'], id="Done with two"
        ),
    ],
)
def test_what_a_step_may_bring(streams, service, value, outputs):
    found = streams(service)
    number = found.open(value)
    found.wait_for()
    body = b"".join(found.found[number])

    assert body == b"".join(b"data: %b\n\n" % output for output in outputs)


def test_input_by_signature_is_a_mapping_of_arrays(streams):
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}], "outputs": []}
    found = streams("streams:Tensor", signature=signature)
    number = found.open([1, 2])
    found.wait_for()

    assert b"".join(found.found[number]) == b"data: 2.0\n\ndata: 4.0\n\n"


@BOTH
def test_members_take_turns_and_new_ones_come_in_between(streams, service):
    found = streams(service)
    long = found.open({"to": 1000, "pause_s": 0.002})
    found.wait_for_outputs(long, 3)
    short = found.open({"to": 3})
    found.wait_for(short)

    assert long not in found.ends
    assert found.order[found.order.index(short) :].count(long) <= 10
    found.leave(long)


@pytest.mark.parametrize(
    ("value", "error", "before"),
    [
        pytest.param({"to": 1, "then": "refuse"}, ("InputError", b"enough"), 1, id="refusal"),
        pytest.param({"to": 1, "then": "fail"}, ("PredictFailed", b'"detail":""'), 1, id="failure"),
        pytest.param({"to": "x"}, ("InputError", b"expected int"), 0, id="input of another type"),
        pytest.param(b"{", ("BodyMalformed", b"truncated"), 0, id="malformed body"),
    ],
)
@BOTH
def test_error_ends_one_stream_only(streams, service, value, error, before):
    found = streams(service)
    other = found.open({"to": 50, "pause_s": 0.001})
    found.wait_for_outputs(other, 1)
    number = found.open(value)
    found.wait_for()
    name, text = found.ends[number]

    assert (name, len(found.found[number])) == (error[0], before)
    assert error[1] in text
    assert found.ends[other] == ("", b"")
    assert len(found.found[other]) == 50


@pytest.mark.parametrize("service", ["streams:Slots", "async_streams:Slots"])
def test_refusal_by_admit_and_a_media_type_that_nobody_writes(streams, service):
    found = streams(service)
    refused, odd = found.open({"to": -1}), found.open({"to": 1}, "video/mp4")
    found.wait_for()

    assert found.ends[refused][0] == "InputError"
    assert found.ends[odd][0] == "NotAcceptable"


def test_output_that_cannot_be_written_ends_its_stream(streams):
    found = streams("streams:Unencodable")
    number = found.open(0)
    found.wait_for()

    assert found.found[number] == [b"data: 1\n\n"]
    assert found.ends[number][0] == "ResultNotEncodable"


@pytest.mark.parametrize(
    ("kind", "error"), [("raise", "PredictFailed"), ("short", "WrongBatchLength")]
)
@pytest.mark.parametrize("service", ["streams:Broken", "async_streams:Broken"])
def test_step_that_fails_ends_all_and_the_worker_goes_on(streams, service, kind, error):
    found = streams(service)
    first = found.open("fine")
    found.wait_for_outputs(first, 1)
    second = found.open(kind)
    found.wait_for()

    assert {found.ends[first][0], found.ends[second][0]} == {error}
    log = found.worker.log.read_text()
    assert log.count(" for 2 request(s)") == 1 or log.count(" for 1 request(s)") == 2
    assert found.worker.log.read_text().count("evict failed") == 2
    third = found.open("fine")
    found.wait_for_outputs(third, 1)


@BOTH
def test_stream_whose_client_has_gone_is_closed_within_a_step(streams, service):
    found = streams(service)
    gone, stays = (found.open({"to": to, "pause_s": 0.001}) for to in (100_000, 200))
    found.wait_for_outputs(gone, 2)
    found.leave(gone)
    found.wait_for()

    assert found.ends[gone][0] == "ClientGone"
    assert found.ends[stays] == ("", b"")
    found.worker.wait_for_log("closed 100000")


def test_service_sees_that_the_client_has_gone(streams):
    found = streams("streams:Generator")
    gone = found.open({"to": 1000, "pause_s": 0.05}, request_id="r-gone")
    found.wait_for_outputs(gone, 1)
    found.leave(gone)
    found.wait_for()

    found.worker.wait_for_log("closed 1000 r-gone True")


@BOTH
def test_channel_that_closes_takes_its_streams_along(streams, service):
    found = streams(service)
    number = found.open({"to": 100_000, "pause_s": 0.001})
    found.wait_for_outputs(number, 1)
    found.channel.sock.close()

    found.worker.wait_for_log("closed 100000")
    again = Streams(found.worker)
    again.open({"to": 1})
    again.wait_for()


@BOTH
def test_worker_told_to_stop_closes_what_is_open(streams, service):
    found = streams(service)
    number = found.open({"to": 100_000, "pause_s": 0.001})
    found.wait_for_outputs(number, 1)

    assert found.worker.stop() == 0
    assert "closed 100000" in found.worker.log.read_text()


def test_more_streams_than_slots_wait_in_the_worker(streams, start):
    worker = start("streams:Generator").boot()
    first, second = Streams(worker), Streams(worker)
    for found in (first, second):
        for _ in range(20):
            found.open({"to": 5, "pause_s": 0.001})
    first.wait_for()
    second.wait_for()

    assert len(first.ends) == len(second.ends) == 20


def test_ping_is_answered_between_turns_and_silence_is_broken(streams):
    found = streams("streams:Slots")
    number = found.open({"to": 3, "pause_s": 0.7}, JSON)
    found.channel.send(Ping())
    seen = []
    while number not in found.ends:
        seen += found.channel.receive_some()
        if any(isinstance(message, Parts) and message.parts for message in seen):
            break

    assert any(isinstance(message, Pong) for message in seen)
    assert [message for message in seen if isinstance(message, Parts) and not message.parts]


def test_large_body_is_given_back_at_once(streams):
    found = streams("streams:GeneratorPredict")
    slab = found.channel.lay_out(b'"ab"')
    found.opened += 1
    found.found[1], found.pieces[1] = [], []
    found.channel.send(Open(1, 0, item(slab, accept=EVENTS), math.inf))

    messages = []
    while not any(isinstance(message, Parts) and message.parts for message in messages):
        messages += found.channel.receive_some()
    assert messages.pop(0) == Freed([slab.offset])
    for message in messages:
        found.take(message)
    found.wait_for()
    assert b"".join(found.found[1]) == b'data: "a"\n\ndata: "b"\n\n'


def test_request_past_its_deadline_is_not_admitted(streams):
    found = streams("streams:Generator")
    late = found.open({"to": 1}, deadline=monotonic() - 1)
    found.wait_for()

    assert found.ends[late][0] == "DeadlineExceeded"


def test_service_that_exits_leaves(streams):
    found = streams("streams:Generator")
    number = found.open({"to": 1, "then": "exit"})
    found.wait_for(number)

    assert found.ends[number][0] == "PredictFailed"
    assert found.worker.wait() == 1


def test_examples_are_run_to_their_end(start):
    examples = [{"input": {"to": 2}, "output": [0, 1]}]
    worker = start("streams:Generator", examples=examples).boot()

    assert worker.interface.produces[-3:] == [EVENTS, LINES, "application/jsonl"]
    assert worker.interface.output_schema == {"type": "array", "items": {"type": "integer"}}
    wrong = start("streams:Slots", examples=[{"input": {"to": 2}, "output": [0]}])
    assert "example 1: output" in wrong.receive().reason


def test_service_that_contradicts_itself_does_not_boot(start):
    assert (
        start("streams:Both").receive().reason == "Both: has predict and stream; keep one of them"
    )


def test_async_generator_that_never_waits_leaves_others_their_turn(streams):
    found = streams("async_streams:Busy")
    endless = found.open(0)
    found.wait_for_outputs(endless, 1)
    found.leave(endless)
    found.wait_for()

    assert found.ends[endless][0] == "ClientGone"


def test_endpoints_beside_an_async_generator_are_answered(streams):
    found = streams("async_streams:Generator")
    number = found.open(3, JSON, calls=run(".double"))
    letters, refused = (found.open(each, calls=run(".letters")) for each in ("ab", 5))
    found.wait_for()

    assert found.ends[number] == (JSON, b'{"prediction":6}')
    assert b"".join(found.found[letters]) == b'data: "a"\n\ndata: "b"\n\n'
    assert found.ends[refused][0] == "InputError"


def test_examples_of_async_streams_are_run(streams):
    streams("async_streams:Slots", examples=[{"input": {"to": 2}, "output": [0, 1]}])


# ------------------------------------------------------------ several inputs in one request

BARE = ProtocolCall("tests.worker.envelopes.samples:Bare")
SEVERAL = ProtocolCall("tests.worker.envelopes.samples:Several", is_stream=True)


@BOTH
def test_several_inputs_are_answered_together(streams, service):
    found = streams(service)
    number = found.open([{"to": 2}, {"to": 0}, *[{"to": 1}] * 40], protocol=BARE)
    found.wait_for()

    assert found.ends[number] == (JSON, b"[[0,1],[]" + b",[0]" * 40 + b"]")


@pytest.mark.parametrize("then", ["refuse", "fail"])
@BOTH
def test_an_input_that_fails_ends_its_request_alone(streams, service, then):
    found = streams(service)
    other = found.open([{"to": 5}] * 2, protocol=BARE)
    endless = {"to": 100_000, "pause_s": 0.001}
    failed = found.open([endless, {"to": 1, "then": then}, endless], protocol=BARE)
    found.wait_for()

    assert found.ends[failed][0] == {"refuse": "InputError", "fail": "PredictFailed"}[then]
    assert found.ends[other] == (JSON, b"[[0,1,2,3,4],[0,1,2,3,4]]")
    found.worker.wait_for_log("closed 100000")


@BOTH
def test_a_client_that_leaves_frees_the_places_of_all_inputs(streams, service):
    found = streams(service)
    long = found.open({"to": 100, "pause_s": 0.001})
    number = found.open([{"to": 100_000, "pause_s": 0.001}] * 80, protocol=BARE)
    found.wait_for_outputs(long, 20)
    found.leave(number)
    last = found.open([{"to": 1}], protocol=BARE)
    found.wait_for()

    assert found.ends[number][0]
    assert found.ends[last] == (JSON, b"[[0]]")
    found.worker.wait_for_log("closed 100000")


@BOTH
def test_the_outputs_of_several_inputs_are_one_stream(streams, service):
    found = streams(service)
    number = found.open([{"to": 2}, {"to": 0}, {"to": 1}], protocol=SEVERAL)
    found.wait_for()
    sent = b"".join(found.pieces[number])

    assert sent.endswith(b".")
    assert sorted(re.findall(rb"<\d:\d>|\[\d]", sent)) == [
        *(b"<0:0>", b"<0:1>", b"<2:0>", b"[0]", b"[1]", b"[2]"),
    ]
    assert sent.index(b"<0:0>") < sent.index(b"<0:1>") < sent.index(b"[0]")
    assert found.ends[number] == ("", b"")


@pytest.mark.parametrize("inputs", [1, 3])
@BOTH
def test_an_output_that_its_envelope_cannot_write_ends_one_request(streams, service, inputs):
    found = streams(service)
    other = found.open({"to": 100, "pause_s": 0.001})
    number = found.open([{"to": 1000, "pause_s": 0.001}] * inputs, protocol=SEVERAL)
    found.wait_for()

    assert found.ends[number][0] == "ResultNotEncodable"
    assert b"<0:2>" in b"".join(found.pieces[number])
    assert len(found.found[other]) == 100


@BOTH
def test_a_client_that_leaves_ends_all_inputs_of_its_stream(streams, service):
    found = streams(service)
    number = found.open([{"to": 2, "pause_s": 0.05}] * 80, protocol=SEVERAL)
    found.wait_for_outputs(number, 1)
    found.leave(number)
    last = found.open([{"to": 1}], protocol=BARE)
    found.wait_for()

    assert found.ends[number][0]
    assert found.ends[last] == (JSON, b"[[0]]")


@pytest.mark.parametrize("service", ["streams:Lists", "async_streams:Lists"])
def test_what_a_generator_yields_is_one_output_be_it_a_list_or_nothing(streams, service):
    found = streams(service)
    streamed, whole = found.open(1, LINES), found.open(1, JSON)
    found.wait_for()
    lines = b"".join(found.found[streamed]).splitlines()
    outputs = [json.loads(line)["output"] for line in lines]

    assert outputs == [[1, 2], None, []]
    assert json.loads(found.ends[whole][1]) == {"prediction": [[1, 2], None, []]}

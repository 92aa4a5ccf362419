# SPDX-License-Identifier: Apache-2.0
"""Services whose methods are coroutines, in a real worker process."""

import json
import math
import socket
from time import monotonic

import pytest

from servekit.ipc.batches import Freed, Open, Parts, Ping, Pong, ProtocolCall, SlotsReply
from servekit.ipc.calls import CallAnswer, CallRequest, CancelCall
from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.worker.codecs.value import value as codec
from tests.worker.worker_process import PATIENCE_S, item, parts_of, run

JSON = "application/json"
SAMPLES = "tests.worker.envelopes.samples"


class Requests:
    """Sends requests on one channel, and collects what comes of them."""

    def __init__(self, worker):
        self.worker, self.channel = worker, worker.connect()
        self.sent = 0
        self.ends: dict[int, tuple[str, bytes]] = {}
        self.parts: dict[int, object] = {}
        self.others: list[object] = []

    def send(self, value, **keys):
        self.sent += 1
        message = Open(self.sent, self.sent - 1, item(value, **keys), math.inf)
        self.channel.send(message)
        return self.sent

    def wait_for(self, *numbers):
        while not self.ends.keys() >= set(numbers):
            for message in self.channel.receive_some():
                self.take(message)

    def take(self, message):
        if not isinstance(message, Parts | SlotsReply):
            self.others.append(message)
        for part in parts_of(message):
            error, media_type, body = part.end
            self.parts[part.stream] = part
            self.ends[part.stream] = (error or media_type, self.channel.bytes_of(body))

    def ask(self, value, **keys):
        """Send one request and return what it is answered with."""
        number = self.send(value, **keys)
        self.wait_for(number)
        return self.ends[number]

    def predict(self, value, **keys):
        """Return the output for one request."""
        name, body = self.ask(value, **keys)
        assert name == JSON, (name, body)
        return json.loads(body)["prediction"]

    def leave(self, number):
        self.channel.cancelled.mark(number, number - 1)


@pytest.fixture
def requests(start):
    def connect(service="coroutines:Waits", **keys):
        return Requests(start(service, **keys).boot())

    return connect


def test_requests_run_at_the_same_time_and_see_their_own_request(requests):
    found = requests()
    ids = [f"r{number}" for number in range(8)]
    numbers = [found.send({"pause_s": 0.1}, request_id=each) for each in ids]
    found.wait_for(*numbers)
    outputs = [json.loads(found.ends[number][1])["prediction"] for number in numbers]

    assert (found.channel.hello.slots, found.channel.hello.is_async) == (32, True)
    assert [output["id"] for output in outputs] == [output["after"] for output in outputs] == ids
    assert max(output["most"] for output in outputs) == 8


def test_a_short_request_does_not_wait_for_a_long_one(requests):
    found = requests()
    long = found.send({"pause_s": 100})
    found.predict({})

    assert long not in found.ends
    found.leave(long)


def test_no_more_run_at_the_same_time_than_the_bound(requests):
    found = requests(max_concurrency=3)
    other = Requests(found.worker)
    for each in (found, other):
        numbers = [each.send({"pause_s": 0.02}) for _ in range(3)]
    for each in (found, other):
        each.wait_for(*numbers)

    assert found.channel.hello.slots == 3
    assert found.predict({})["most"] == 3


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        pytest.param({"then": "refuse"}, "InputError", b"enough", id="refusal"),
        pytest.param({"then": "fail"}, "PredictFailed", b'"detail":""', id="failure"),
        pytest.param({"then": "cancel"}, "PredictFailed", b'"detail":""', id="its own cancelling"),
        pytest.param({"then": 5}, "InputError", b"then: expected str", id="input of another type"),
        pytest.param(b"{", "BodyMalformed", b"truncated", id="malformed body"),
    ],
)
def test_an_error_ends_one_request_only(requests, value, error, text):
    found = requests()
    other = found.send({"pause_s": 0.1})
    name, body = found.ask(value, request_id="r-bad")
    found.wait_for(other)

    assert name == error
    assert text in body
    assert found.ends[other][0] == JSON
    is_logged = "predict failed for 1 request(s): r-bad" in found.worker.log.read_text()
    assert is_logged == (error == "PredictFailed")


def test_cancelling_reaches_the_coroutine_when_the_client_disconnects(requests):
    found = requests()
    gone, stays = (found.send({"pause_s": pause_s}) for pause_s in (100, 0.3))
    found.predict({})
    found.leave(gone)
    found.wait_for(gone, stays)

    assert found.ends[gone][0] == "ClientGone"
    assert found.ends[stays][0] == JSON
    assert "cancelled r1 True" in found.worker.log.read_text()


def test_cancelling_reaches_the_coroutine_at_its_deadline(requests):
    found = requests()
    name, _ = found.ask({"pause_s": 100}, deadline=monotonic() + 0.1)

    assert name == "DeadlineExceeded"
    assert "cancelled r1 True" in found.worker.log.read_text()


def test_a_request_past_its_deadline_does_not_run(requests):
    found = requests()

    assert found.ask({"pause_s": 100}, deadline=monotonic() - 1)[0] == "DeadlineExceeded"


def test_cancelling_reaches_the_coroutine_when_the_front_end_is_gone(requests):
    found = requests()
    found.send({"pause_s": 100})
    found.predict({})
    found.channel.sock.shutdown(socket.SHUT_RDWR)

    found.worker.wait_for_log("cancelled r1")
    assert Requests(found.worker).predict({})["most"] == 2


def test_a_worker_told_to_stop_cancels_what_runs(requests):
    found = requests()
    found.send({"pause_s": 100})
    found.predict({})

    assert found.worker.stop() == 0
    assert "cancelled r1" in found.worker.log.read_text()


def test_endpoints_take_one_input_too(requests):
    found = requests()

    assert found.predict(4, calls=run(".double")) == 8
    assert found.predict(0, calls=run(".ids"), request_id="r7") == ["r7"]
    assert found.ask("x", calls=run(".double"))[0] == "InputError"
    assert found.ask(0, calls=run(".nothing"))[0] == "RouteNotFound"


def test_every_method_may_be_a_coroutine(requests):
    found = requests("coroutines:Life", examples=[{"input": "x"}])
    number = found.send("a")
    found.wait_for(number)
    output = json.loads(found.ends[number][1])["prediction"]

    assert output[0] == "a"
    assert sorted(output[1:]) == ["load", "tick", "warm_up"]
    assert found.parts[number].response == (201, [("X-Told", "4")])
    assert found.ask("refuse")[0] == "InputError"
    assert found.worker.stop() == 0
    assert found.worker.log.read_text() == "closed ['load', 'tick', 'warm_up']\n"


def test_plain_methods_around_it_run_in_the_loop(requests):
    assert requests("coroutines:PlainAround").predict(3) == -8


def test_ping_is_awaited(requests):
    found = requests("coroutines:Life")
    found.channel.send(Ping())

    assert found.channel.receive() == Pong("ValueError")


def test_pings_are_answered_while_requests_run_and_silence_is_broken(requests):
    found = requests()
    number = found.send({"pause_s": 100})
    found.channel.send(Ping())
    alive = False
    while not (alive and found.others):
        for message in found.channel.receive_some():
            alive |= message == Parts([])
            found.take(message)

    assert found.others == [Pong("")]
    found.leave(number)


def test_a_service_that_blocks_the_loop_is_silent(requests):
    found = requests()
    found.send({"then": "block"})
    found.worker.wait_for_log("blocking")
    found.channel.send(Ping())
    found.channel.sock.settimeout(1.2)

    with pytest.raises(TimeoutError):
        found.channel.receive_some()


def test_input_of_a_signature_has_no_batch_axis(requests):
    signature = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [-1]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [-1]}],
    }
    found = requests("coroutines:Tensor", signature=signature)

    assert found.predict({"x": [1, 2]}) == {"y": [2.0, 4.0]}
    assert found.ask({"x": "text"})[0] == "InputError"


def test_typed_arrays_are_inputs(requests):
    found = requests("coroutines:Vector")

    assert found.predict([1, 2]) == 3.0
    assert found.ask([1])[0] == "InputError"


@pytest.mark.parametrize("then", ["exit", "exit in a task"])
def test_a_service_that_exits_leaves(requests, then):
    found = requests()
    found.send({"pause_s": 100})
    number = found.send({"then": then})
    with pytest.raises((ChannelClosed, ConnectionError)):
        found.wait_for(99)

    assert found.ends.get(number, ("PredictFailed",))[0] == "PredictFailed"
    assert found.worker.wait() == 1


def test_large_bodies_and_answers_go_by_shared_memory(requests):
    found = requests("coroutines:PlainAround")
    slab = found.channel.lay_out(b"3")

    assert found.predict(slab) == -8
    assert found.others == [Freed([slab.offset])]


def test_server_timing_has_what_each_part_took(requests):
    found = requests()
    number = found.send({"pause_s": 0.05})
    found.wait_for(number)
    decode_s, predict_s, encode_s = found.parts[number].times

    assert 0.05 <= predict_s < 5
    assert 0 < decode_s < 5
    assert 0 < encode_s < 5


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        pytest.param([1, 2, 3], (JSON, b"[2,4,6]"), id="several inputs"),
        pytest.param([], (JSON, b"[]"), id="none"),
        pytest.param([1, "x"], ("InputError", b""), id="one that is refused"),
        pytest.param(b"{", ("BodyMalformed", b""), id="malformed body"),
    ],
)
def test_requests_of_protocols_run_their_inputs_at_the_same_time(requests, body, answer):
    found = requests()
    protocol = ProtocolCall(f"{SAMPLES}:Bare")
    name, text = found.ask(body, calls=run(".double"), protocol=protocol)

    assert name in (answer[0], "")
    assert answer[1] in text


def test_a_call_of_another_model_does_not_block_and_ends_with_its_task(start):
    worker = start("coroutines:Calls", calls=["other"]).boot()
    found = Requests(worker)
    (calls,) = found.channel.calls
    calls.settimeout(PATIENCE_S)
    reader = FrameReader(calls, CallRequest)

    def hear():
        while not (messages := reader.read()):
            pass
        return messages[0]

    gone = found.send(1, request_id="r-gone")
    assert hear().request_id == "r-gone"
    stays = found.send(2, request_id="r-stays")
    call = hear()
    calls.sendall(encode_frame(CallAnswer(call.number, 200, codec.encode({"sum": 3}))))
    found.wait_for(stays)
    found.leave(gone)
    found.wait_for(gone)

    assert found.ends[stays] == (JSON, b'{"prediction":{"sum":3}}')
    assert found.ends[gone][0] == "ClientGone"
    assert isinstance(hear(), CancelCall)


def test_a_fork_in_a_coroutine_is_answered_once(requests):
    found = requests()
    other = found.send({"pause_s": 0.2})

    assert found.predict({"then": "fork"})["id"] == "r1"
    found.wait_for(other)
    assert found.sent == len(found.ends) == 2
    found.worker.wait_for_log("child ended with 0")


def test_a_blocked_loop_is_logged(start, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom servekit import Service\n\nclass Slow(Service):\n"
        "    async def predict(self, value):\n        time.sleep(value)\n"
    )
    found = Requests(start("slow:Slow", directory=tmp_path).boot())
    found.predict(1.3)

    found.worker.wait_for_log("the event loop was blocked for 1.")

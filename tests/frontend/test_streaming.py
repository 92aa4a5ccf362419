# SPDX-License-Identifier: Apache-2.0
"""Streams as a client sees them: how they begin, go on and end, whoever ends them."""

import json
import socket
from time import monotonic, sleep
from typing import ClassVar

import pytest

from servekit.frontend.metrics.families import collect
from servekit.ipc.batches import Part
from servekit.ipc.control import Hung, Lost
from tests.waiting import wait_until

from .clients import ECHO, wait_for_queue
from .conftest import WAIT_S, post, receive

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
JSON = "application/json"
END = ("", "", b"")
SLOTS = 4


class Reader:
    """One answer, read as it comes."""

    def __init__(self, sock):
        self.sock, self.stream = sock, sock.makefile("rb")

    def close(self):
        self.stream.close()
        self.sock.close()

    def head(self):
        status = int(self.stream.readline().split()[1])
        self.headers = {}
        while line := self.stream.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        return status

    def chunk(self):
        """Return the next chunk; b"" is the last."""
        size = int(self.stream.readline(), 16)
        data = self.stream.read(size)
        assert self.stream.readline() == b"\r\n"
        return data

    def rest(self):
        return b"".join(iter(self.chunk, b""))


class Client:
    """One request to a front-end whose worker streams."""

    readers: ClassVar = []  #: closed after each test

    def __init__(self, front_end, *headers, version="1.1"):
        self.worker = front_end.worker
        self.reader = Reader(front_end.connect())
        self.readers.append(self.reader)
        request = post(b"1", *headers).replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1)
        self.reader.sock.sendall(request)
        self.open = self.worker.opened.get(timeout=WAIT_S)

    def part(self, *outputs, end=None, media_type=EVENTS):
        body = b"".join(b"data: %b\n\n" % output for output in outputs)
        return Part(self.open.stream, media_type, body, len(outputs), end)

    def say(self, *outputs, **keys):
        self.worker.say(self.part(*outputs, **keys))

    def begin(self):
        """Have the first output said and read."""
        self.say(b"0")
        assert self.reader.head() == 200
        assert self.reader.chunk() == b"data: 0\n\n"
        return self.reader

    def is_marked(self):
        return self.worker.cancelled.has(self.open.stream, self.open.place)

    def wait_for_mark(self, within_s=WAIT_S):
        wait_until(self.is_marked, "the worker is told that the client has gone", within_s)

    def end(self):
        """Let the worker be done with it, as it must once it sees the mark."""
        self.say(end=("ClientGone", "", b"{}"), media_type="")


@pytest.fixture(autouse=True)
def closed():
    """Close what a test has opened."""
    yield
    while Client.readers:
        Client.readers.pop().close()


def send(front_end, body):
    """Send a request that gets no slot yet."""
    reader = Reader(front_end.connect())
    Client.readers.append(reader)
    reader.sock.sendall(post(body))
    return reader.sock


@pytest.fixture(scope="module")
def streaming(tmp_path_factory):
    from .conftest import FrontEndUnderTest

    front_end = FrontEndUnderTest(tmp_path_factory.mktemp("run"), slots=SLOTS)
    yield front_end
    assert front_end.stop() == 0


def samples(front_end, name):
    for family in collect(front_end.counters, ECHO):
        for sample in family.samples:
            if sample.name == name:
                return sample.value
    return 0


def problem_of(chunk):
    event, data = chunk.replace(b": \n\n", b"").decode().split("\n")[:2]  # a comment may precede it
    assert event == "event: error"
    return json.loads(data.removeprefix("data: "))


def test_outputs_go_out_as_they_come_and_the_connection_stays(streaming):
    client = Client(streaming, "X-Request-Id: mine")
    reader = client.begin()
    client.say(b"1", b"2")

    assert reader.chunk() == b"data: 1\n\ndata: 2\n\n"
    client.say(b"3", end=END)
    assert reader.rest() == b"data: 3\n\nevent: end\ndata: {}\n\n"
    assert reader.headers["content-type"] == EVENTS
    assert reader.headers["x-request-id"] == "mine"
    assert "first;dur=" in reader.headers["server-timing"]
    assert reader.headers["x-model-version"] == "1.0"
    reader.sock.sendall(b"GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n")
    assert reader.head() == 404


def test_json_lines_end_without_a_word(streaming):
    client = Client(streaming)
    client.worker.say(Part(client.open.stream, LINES, b'{"output":1}\n', 1, END))

    assert client.reader.head() == 200
    assert client.reader.headers["content-type"] == LINES
    assert client.reader.rest() == b'{"output":1}\n'


def test_stream_without_outputs_is_empty(streaming):
    client = Client(streaming)
    client.say(end=END)

    assert client.reader.head() == 200
    assert client.reader.rest() == b"event: end\ndata: {}\n\n"


def test_http_1_0_gets_a_stream_until_the_connection_closes(streaming):
    client = Client(streaming, version="1.0")
    client.say(b"1")
    client.say(end=END)

    assert client.reader.head() == 200
    assert "transfer-encoding" not in client.reader.headers
    assert client.reader.headers["connection"] == "close"
    assert client.reader.stream.read() == b"data: 1\n\nevent: end\ndata: {}\n\n"


def test_client_that_takes_no_stream_gets_one_answer(streaming):
    client = Client(streaming)
    client.worker.say(Part(client.open.stream, "", b"", 2, ("", JSON, b'{"prediction":[1,2]}')))

    assert receive(client.reader.sock)[::2] == (200, b'{"prediction":[1,2]}')


def test_error_before_the_first_output_is_an_ordinary_problem(streaming):
    client = Client(streaming)
    said = b'{"detail":"no","errors":[]}'
    client.worker.say(Part(client.open.stream, "", b"", 0, ("InputError", JSON, said)))
    status, headers, body = receive(client.reader.sock)

    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert json.loads(body)["detail"] == "no"


def test_error_in_a_stream_is_its_last_event_and_the_connection_stays(streaming):
    client = Client(streaming, "X-Request-Id: mine")
    reader = client.begin()
    said = b'{"detail":"enough","errors":[]}'
    client.worker.say(Part(client.open.stream, "", b"", 0, ("InputError", JSON, said)))
    told = problem_of(reader.rest())

    assert (told["status"], told["detail"], told["request_id"]) == (422, "enough", "mine")
    reader.sock.sendall(b"GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n")
    assert reader.head() == 404


def test_internal_error_in_a_stream_tells_nothing(streaming):
    client = Client(streaming)
    reader = client.begin()
    said = b'{"detail":"secret","errors":[]}'
    client.worker.say(Part(client.open.stream, "", b"", 0, ("PredictFailed", JSON, said)))

    assert b"secret" not in reader.rest()


@pytest.mark.parametrize("leave", ["closes", "resets", "ends its sending side"])
def test_client_that_leaves_is_marked_and_its_slot_is_free_once_the_worker_let_go(streaming, leave):
    client = Client(streaming)
    sock = client.begin().sock
    if leave == "resets":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    (client.reader.close if leave != "ends its sending side" else lambda: sock.shutdown(1))()
    client.wait_for_mark()
    client.say(b"1")  # the step that was under way
    client.end()
    others = [Client(streaming) for _ in range(SLOTS)]
    for other in others:
        other.say(b"1", end=END)

    assert [other.reader.head() for other in others] == [200] * SLOTS


def test_client_that_leaves_before_the_first_output_is_marked(streaming):
    client = Client(streaming)
    client.reader.close()
    client.wait_for_mark()
    client.end()


def test_more_requests_than_slots_wait_and_go_in_order(streaming):
    clients = [Client(streaming) for _ in range(SLOTS)]
    waiting = []
    for number in range(2):
        waiting.append(send(streaming, b"w%d" % number))
        wait_for_queue(streaming, number + 1)
    assert streaming.worker.opened.empty()
    clients[2].say(b"1", end=END)
    first = streaming.worker.opened.get(timeout=WAIT_S)
    assert (first.item.body, first.place) == (b"w0", clients[2].open.place)
    for client in (clients[0], clients[1], clients[3]):
        client.say(end=END)
    second = streaming.worker.opened.get(timeout=WAIT_S)
    assert second.item.body == b"w1"
    for opened in (first, second):
        streaming.worker.say(Part(opened.stream, "", b"", 1, ("", JSON, b"1")))
    assert [receive(sock)[0] for sock in waiting] == [200, 200]


def test_deadline_is_of_the_next_output_and_ends_the_stream(start):
    front_end = start(slots=SLOTS)
    front_end.publish(predict_timeout_s=2.8)
    client = Client(front_end)
    reader = client.begin()
    started = said = monotonic()
    while said < started + 2:
        sleep(0.3)
        said = monotonic()
        client.say(b"1")
        assert reader.chunk() == b"data: 1\n\n"

    assert problem_of(reader.rest())["status"] == 504
    assert 2.8 <= monotonic() - said < 30
    client.wait_for_mark()


def test_first_output_has_the_timeout_too(start):
    front_end = start(slots=SLOTS)
    front_end.publish(predict_timeout_s=1.5)
    client = Client(front_end)

    assert receive(client.reader.sock)[0] == 504
    client.wait_for_mark()


def test_client_may_bound_the_whole_stream(streaming):
    client = Client(streaming, "X-Request-Timeout-Ms: 4000")
    reader = client.begin()
    started = monotonic()
    while monotonic() < started + 1:
        client.say(b"1")
        reader.chunk()
        sleep(0.05)

    assert problem_of(reader.rest())["status"] == 504
    assert client.open.until <= started + 4
    client.wait_for_mark()
    client.end()


def test_silence_is_broken_by_comments(streaming):
    client = Client(streaming)
    started = monotonic()
    reader = client.begin()

    assert reader.chunk() == b": \n\n"
    assert 3 <= monotonic() - started < 30
    client.say(end=END)
    assert reader.rest() == b"event: end\ndata: {}\n\n"


def test_slow_reader_is_cancelled_and_its_neighbour_is_not(streaming):
    slow, other = Client(streaming), Client(streaming)
    slow.begin()
    reader = other.begin()
    output = b"9" * 100_000
    for _ in range(200):
        slow.worker.say(slow.part(output), other.part(b"1"))
        assert reader.chunk() == b"data: 1\n\n"
        if slow.is_marked():
            break
    assert slow.is_marked()
    slow.end()
    other.say(end=END)
    reader.rest()


def test_reader_that_catches_up_loses_nothing(streaming):
    client = Client(streaming)
    reader = client.begin()
    outputs = [b"%d" % number * 500 for number in range(1800)]
    for output in outputs:
        client.say(output)
    client.say(end=END)

    expected = b"".join(b"data: %b\n\n" % output for output in outputs)
    assert reader.rest() == expected + b"event: end\ndata: {}\n\n"


def test_lost_worker_ends_its_streams_with_503(start):
    front_end = start(slots=SLOTS)
    begun, waiting = Client(front_end), Client(front_end)
    reader = begun.begin()
    front_end.worker.die()

    assert problem_of(reader.rest())["status"] == 503
    assert receive(waiting.reader.sock)[0] == 503
    assert isinstance(front_end.hear(), Lost)
    assert samples(front_end, "servekit_streams_open") == 0


def test_part_of_no_stream_closes_the_channel(start):
    front_end = start(slots=SLOTS)
    reader = Client(front_end).begin()
    front_end.worker.say(Part(77, EVENTS, b"data: 1\n\n", 1))

    assert problem_of(reader.rest())["status"] == 503


def test_worker_whose_step_takes_too_long_hangs_and_signs_of_life_help(start):
    front_end = start(slots=SLOTS)
    front_end.publish(predict_timeout_s=2.0)
    client = Client(front_end)
    started = said = monotonic()
    while said < started + 2.5:
        said = monotonic()
        front_end.worker.say()
        sleep(0.1)
    assert receive(client.reader.sock)[0] == 504
    hung = front_end.hear()

    assert isinstance(hung, Hung)
    assert hung.reason == "a step took longer than 2 s"
    assert 2 <= monotonic() - said < 30


def test_drain_lets_streams_finish(start):
    front_end = start(slots=SLOTS, grace=60.0)
    client = Client(front_end)
    reader = client.begin()
    front_end.publish(is_draining=True)
    front_end.process.terminate()
    client.say(b"1")
    assert reader.chunk() == b"data: 1\n\n"
    client.say(end=END)

    assert reader.rest() == b"event: end\ndata: {}\n\n"
    assert front_end.process.wait(WAIT_S) == 0


def test_end_of_the_grace_ends_streams_with_503(start):
    front_end = start(slots=SLOTS, grace=1.0)
    reader = Client(front_end).begin()
    front_end.publish(is_draining=True)
    front_end.process.terminate()

    assert problem_of(reader.rest())["status"] == 503
    assert front_end.process.wait(WAIT_S) == 0


def test_streams_are_counted(start):
    front_end = start(slots=SLOTS)
    whole, gone = Client(front_end), Client(front_end)
    reader = whole.begin()
    gone.begin()
    assert samples(front_end, "servekit_streams_open") == 2
    gone.reader.close()
    gone.wait_for_mark()
    gone.end()
    whole.say(b"1", end=END)
    reader.rest()

    assert samples(front_end, "servekit_streams_open") == 0
    assert samples(front_end, "servekit_streams_cancelled_total") == 1
    assert samples(front_end, "servekit_outputs_total") == 3
    assert samples(front_end, "servekit_first_output_seconds_count") == 2


def test_large_body_of_a_stream_is_freed_when_the_worker_says_so(start):
    front_end = start(slots=SLOTS)
    body = b"x" * 200_000
    sock = send(front_end, body)
    opened = front_end.worker.opened.get(timeout=WAIT_S)

    assert front_end.worker.body(opened.item) == body
    front_end.worker.say(Part(opened.stream, "", b"", 1, ("", JSON, b"1")))
    assert receive(sock)[0] == 200

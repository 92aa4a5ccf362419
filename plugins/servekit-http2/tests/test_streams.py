# SPDX-License-Identifier: Apache-2.0
"""Streamed answers and large bodies on HTTP/2, where the client's windows decide what is sent."""

from contextlib import contextmanager
from time import monotonic
from unittest.mock import Mock

import pytest
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame, WindowUpdateFrame
from servekit_http2.send_queue import SendQueue

from servekit.frontend.batching.stream import StreamedResponse
from servekit.frontend.memory.pressure import Pressure
from servekit.ipc.batches import Part
from tests.frontend.clients import next_batch, wait_for_queue
from tests.frontend.conftest import WAIT_S, FrontEndUnderTest

from .peer import CANCEL, FLOW_CONTROL_ERROR, Peer, post_fields

EVENTS = "text/event-stream"
END = ("", "", b"")
BODY = bytes(300_000)
PIECE = bytes(16_384)


@pytest.fixture(scope="module")
def streaming(tmp_path_factory):
    started = FrontEndUnderTest(tmp_path_factory.mktemp("run"), slots=4, send_timeout=0.5)
    yield started
    assert started.stop() == 0


class Client:
    """One stream of a worker that streams."""

    def __init__(self, front_end, sock, **settings):
        self.worker, self.peer = front_end.worker, Peer(sock, **settings)
        self.peer.post(1, b"1", ("accept", EVENTS))
        self.open = self.worker.opened.get(timeout=WAIT_S)

    def leave(self):
        """Be done with it, as a worker must once it sees that the client has gone."""
        place = self.open.stream, self.open.place
        deadline = monotonic() + WAIT_S
        while not self.worker.cancelled.has(*place):
            assert monotonic() < deadline, "the worker is not told that the client has gone"
        self.worker.say(Part(self.open.stream, "", b"", 0, ("ClientGone", "", b"{}")))

    def say(self, output, end=None):
        part = Part(self.open.stream, EVENTS, b"data: %b\n\n" % output, 1, end)
        self.worker.say(part)


def test_outputs_go_out_as_they_come(streaming):
    with streaming.connect() as sock:
        client = Client(streaming, sock)
        client.say(b"0")
        head = client.peer.wait_for(HeadersFrame, 1).fields
        assert (head[":status"], head["content-type"]) == ("200", EVENTS)
        assert "transfer-encoding" not in head
        assert client.peer.wait_for(DataFrame, 1).data == b"data: 0\n\n"
        client.say(b"1", END)

        assert client.peer.wait_for(DataFrame, 1).data == b"data: 1\n\n"
        while "END_STREAM" not in client.peer.wait_for(DataFrame, 1).flags:
            pass


def test_error_in_a_stream_is_told_as_an_event(streaming):
    with streaming.connect() as sock:
        client = Client(streaming, sock)
        client.say(b"0")
        client.say(b"1", ("PredictFailed", "", b""))
        text = client.peer.answer(1)[2]

    assert b"event: error" in text


def test_worker_is_told_when_its_client_drops_the_stream(streaming):
    with streaming.connect() as sock:
        client = Client(streaming, sock)
        client.say(b"0")
        client.peer.wait_for(DataFrame, 1)

        client.peer.reset(1)

        client.leave()
        client.peer.get(3, "/ping")
        assert client.peer.answer(3)[0] == 200


def test_client_that_makes_no_room_is_cancelled_alone(streaming):
    settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 9}
    with streaming.connect() as sock:
        client = Client(streaming, sock, settings=settings)
        client.say(b"0")
        client.say(b"1")

        assert client.peer.wait_for(DataFrame, 1).data == b"data: 0\n\n"
        assert client.peer.reset_code(1) == CANCEL
        client.leave()
        client.peer.get(3, "/nope", method="HEAD")
        assert client.peer.wait_for(HeadersFrame, 3).fields[":status"] == "404"


def test_nothing_is_said_to_keep_a_dropped_stream_alive():
    writer = SendQueue(lambda: None, Pressure(0, 5.0), lambda: None)
    exchange = Mock(is_closed=False, protocol=None, begin_stream=lambda *_: writer)
    item = Mock(style=None, protocol=None)
    task = Mock(exchange=exchange, is_done=False, consumer=None, arrived=0.0, item=item)
    task.request_id = "1"
    streamed = StreamedResponse(task, 0.0, is_stream=True)
    streamed._begin(exchange, EVENTS, 0.0)
    streamed.keep_alive(9.0)
    assert writer.held > 0

    exchange.is_closed = True
    writer.close()
    streamed.keep_alive(99.0)

    assert writer.held == 0


# ---------------------------------------------------------------- large bodies


@pytest.fixture
def small_arena(start):
    """A front-end with room for two bodies."""
    return start(arena=700_000)


@pytest.fixture
def hasty(start):
    """Another, where a body waits for room only a moment."""
    return start(arena=700_000, body_timeout=0.6)


@pytest.fixture
def full(small_arena):
    """A client of the first, whose two large bodies are with the worker."""
    with filled(small_arena) as peer:
        yield peer


@contextmanager
def filled(small_arena):
    """Have a client whose two large bodies are with the worker."""
    worker = small_arena.worker
    worker.is_holding = True
    worker.answer = lambda item: ("", "text/plain", b"%d" % len(worker.body(item)))
    with small_arena.connect() as sock:
        peer = Peer(sock)
        for stream_id in (1, 3):
            upload(peer, stream_id, BODY)
        next_batch(worker)
        wait_for_queue(small_arena, 1)
        yield peer
    worker.is_holding = False
    if worker.held:
        worker.release()


def upload(peer, stream_id, body):
    """Send a large POST as the windows allow."""
    peer.send(peer.headers(stream_id, post_fields(("content-length", str(len(body))))))
    peer.wait_for(WindowUpdateFrame, stream_id)
    for start in range(0, len(body), len(PIECE)):
        flags = ["END_STREAM"] if start + len(PIECE) >= len(body) else []
        peer.send(peer.data(stream_id, body[start : start + len(PIECE)], *flags))


def test_body_that_waits_for_room_gets_429(hasty):
    with filled(hasty) as peer:
        head = peer.headers(5, post_fields(("content-length", str(len(BODY)))))
        peer.send(head, peer.data(5, PIECE))

        status, headers, _ = peer.answer(5)

    assert (status, headers["retry-after"]) == (429, "1")


def test_body_that_waits_may_not_fill_our_memory(full):
    full.send(full.headers(5, post_fields(("content-length", str(len(BODY))))))
    full.send(*(full.data(5, PIECE) for _ in range(4)))

    assert full.goodbye_code() == FLOW_CONTROL_ERROR


def test_body_that_waited_for_room_goes_on_when_there_is_some(small_arena, full):
    full.send(full.headers(5, post_fields(("content-length", "200000"))))
    full.send(*(full.data(5, bytes(13_000)) for _ in range(5)))
    full.get(7, "/ping")
    full.answer(7)
    small_arena.worker.is_holding = False
    small_arena.worker.release()
    full.wait_for(WindowUpdateFrame, 5)
    full.send(*(full.data(5, bytes(13_500)) for _ in range(9)))
    full.send(full.data(5, bytes(13_500), "END_STREAM"))

    assert full.answer(5)[2] == b"200000"

# SPDX-License-Identifier: Apache-2.0
"""Recorded requests are sent again, to servers that answer, break off, or never end."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat

import pytest
from servekit_record.feed import send_all
from servekit_record.recording import RecordedStream
from servekit_record.sending import Address, Sender

from .test_comparison import EVENTS, call

PIECES = (b"data: 1\n\n", b"data: 2\n\n")


class Answers(BaseHTTPRequestHandler):
    """Answers with the pieces that its server has, as a chunked stream."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        self.send_response(200)
        for name, value in {**EVENTS, "transfer-encoding": "chunked"}.items():
            self.send_header(name, value)
        self.send_header("server-timing", "queue;dur=1.5, first;dur=2.5")
        self.end_headers()
        try:
            for piece in self.server.pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        except ConnectionError:
            self.server.has_lost.set()
            self.close_connection = True
            return
        if self.server.breaks_off:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        """Keep stderr free."""


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.pieces, server.breaks_off = PIECES, False
    server.asked, server.has_lost = 0, threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def sender(server):
    sender = Sender(Address(f"http://127.0.0.1:{server.server_port}"))
    yield sender
    sender.close()


def streamed(**stream):
    return call(b"".join(PIECES), headers=EVENTS, is_stream=True, stream=RecordedStream(**stream))


def test_a_stream_is_read_to_its_end_and_the_connection_is_used_again(sender, server):
    for _ in range(2):
        answer = sender.send(streamed(first_s=0.1))

    assert answer.message.body == b"".join(PIECES)
    assert 0 < answer.first_s <= answer.elapsed_s
    assert answer.server_s == pytest.approx(0.004)
    assert server.asked == 2


def test_a_stream_that_breaks_off_is_said_in_words_and_sent_once(sender, server):
    server.breaks_off = True

    assert sender.send(streamed()).problem == "the answer broke off before its end"
    assert server.asked == 1


def test_a_stream_without_an_end_is_not_read_for_ever(sender, server):
    server.pieces = repeat(b"data: 1\n\n" * 1000)
    answer = sender.send(streamed())

    assert len(answer.message.body) > 1 << 20
    assert server.has_lost.wait(60), "the connection is still open"


def test_a_stream_that_was_not_recorded_to_its_end_is_left(sender, server):
    server.pieces = repeat(b"data: 1\n\n" * 1000)
    answer = sender.send(streamed(incomplete="the client left"))

    assert (answer.status, answer.message.body) == (200, b"")
    assert server.has_lost.wait(60), "the connection is still open"


def test_a_server_that_is_gone_is_said_in_words():
    answer = Sender(Address("http://127.0.0.1:9")).send(call(b""))

    assert (answer.status, answer.problem) == (0, "no answer: Connection refused")


def test_calls_keep_their_numbers(server):
    taken = []
    address = Address(f"http://127.0.0.1:{server.server_port}")
    calls = [(number, streamed()) for number in (7, 3)]
    send_all(calls, address, lambda number, *_: taken.append(number), keeps_pace=True)

    assert taken == [7, 3]

# SPDX-License-Identifier: Apache-2.0
import math
import selectors
import socket
import threading
import time

import pytest

from tests.benchmarks.answers import Request
from tests.benchmarks.http_answer import body_of, is_whole
from tests.benchmarks.open_client import OpenClient
from tests.benchmarks.open_loop import OpenSample, Outcome, percentile

REQUEST = Request(path="/sum/predict", content_type="application/json", body=b"{}", expected=1)
BODY = b'{"prediction":1}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"
STALL_S = 0.3


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param(range(1, 101), 50, 50, id="the median of an even number is the lower"),
        pytest.param(range(1, 101), 99, 99, id="99 of 100"),
        pytest.param(range(1, 11), 99.9, 10, id="fewer values than the percentile needs"),
        pytest.param([7], 0, 7, id="the lowest"),
        pytest.param([1, 2], 100, 2, id="the highest"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(values, percent, expected):
    assert percentile(list(values), percent) == expected


def test_there_is_no_percentile_of_nothing():
    assert math.isnan(percentile([], 50))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", False, id="within the head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", False, id="in the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", True, id="whole"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", True, id="no body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", False, id="chunks"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True, id="last chunk"
        ),
    ],
)
def test_the_end_of_an_answer_is_found(answer, expected):
    assert is_whole(answer) is expected


def test_the_body_follows_the_head():
    assert body_of(ANSWER % (len(BODY), BODY)) == BODY


def test_a_sample_counts_milliseconds():
    outcome = Outcome(latencies_s=[0.002, 0.001], late_s=[0.0, 0.003], errors=1)
    sample = OpenSample.of("a", 1, 0.5, 4000.0, outcome)

    assert (sample.rate_per_s, sample.p50_ms, sample.max_ms) == (2000.0, 1.0, 2.0)
    assert (sample.late_p99_ms, sample.errors) == (3.0, 1)


class FakeServer:
    """Answers one connection with given bodies in turn, the first after a pause."""

    def __init__(self, bodies, pause_s=0.0):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._bodies, self._pause_s = bodies, pause_s
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        connection, _ = self.listener.accept()
        with connection:
            for number, body in enumerate(self._bodies):
                connection.recv(1 << 16)
                time.sleep(self._pause_s if number == 0 else 0)
                connection.sendall(ANSWER % (len(body), body))
            connection.recv(1 << 16)

    def close(self):
        self._thread.join(20)
        self.listener.close()


def ask(bodies, pause_s=0.0):
    """Ask a fake server for each of *bodies*, 100 a second, over one connection."""
    server = FakeServer(bodies, pause_s)
    with OpenClient(server.port, REQUEST, BODY, connections=1) as client:
        outcome = client.run(rate=100, seconds=len(bodies) / 100)
    server.close()
    return outcome


def test_requests_that_a_stalled_server_kept_waiting_count_from_when_they_were_due():
    outcome = ask([BODY] * 20, pause_s=STALL_S)
    waited = [latency for latency in outcome.latencies_s if latency > STALL_S / 3]

    assert len(outcome.latencies_s) == 20
    assert len(waited) >= 10, outcome.latencies_s  # a closed loop would have seen one
    assert outcome.errors == 0


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        pytest.param(b'{"prediction": 1.0}', 0, id="right in other bytes"),
        pytest.param(b'{"prediction":2}', 1, id="wrong"),
    ],
)
def test_every_answer_is_looked_at(body, errors):
    outcome = ask([BODY, body, BODY])

    assert (len(outcome.latencies_s), outcome.errors) == (3, errors)


def test_an_idle_connection_that_the_server_closes_is_replaced_and_counts_as_nothing():
    listener = socket.create_server(("127.0.0.1", 0))
    with OpenClient(listener.getsockname()[1], REQUEST, BODY, connections=2) as client:
        listener.accept()[0].close()
        kept, _ = listener.accept()
        server = threading.Thread(target=answer_all, args=(kept, listener))
        server.start()
        time.sleep(STALL_S)
        outcome = client.run(rate=100, seconds=0.1)
    server.join(20)
    listener.close()

    assert (len(outcome.latencies_s), outcome.errors) == (10, 0)


def answer_all(kept, listener):
    """Answer on the connection that is left, and on the one that replaces the other."""
    with kept, listener.accept()[0] as new:
        selector = selectors.DefaultSelector()
        for each in (kept, new):
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(10):
                if key.fileobj.recv(1 << 16):
                    key.fileobj.sendall(ANSWER % (len(BODY), BODY))
                else:
                    selector.unregister(key.fileobj)

# SPDX-License-Identifier: Apache-2.0
"""The metrics as plugins get them."""

import socket
import threading

import pytest

from servekit.extension import MetricFamily, MetricSample
from servekit.observer.metrics import MetricsUnavailable, parse, read_metrics

TEXT = """\
# HELP servekit_requests_total Requests.
# TYPE servekit_requests_total counter
servekit_requests_total{model="m",status="200"} 3.0
# HELP servekit_up Is it?
# TYPE servekit_up gauge
servekit_up 1.0
"""
FAMILIES = [
    MetricFamily(
        "servekit_requests",
        "counter",
        "Requests.",
        [MetricSample("servekit_requests_total", {"model": "m", "status": "200"}, 3.0)],
    ),
    MetricFamily("servekit_up", "gauge", "Is it?", [MetricSample("servekit_up", {}, 1.0)]),
]


@pytest.fixture
def answering(tmp_path):
    """Answer one connection on a Unix socket with some bytes; return its path."""
    threads = []

    def answer(said):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def run():
            with listener, listener.accept()[0] as peer:
                peer.recv(4096)
                peer.sendall(said)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return tmp_path / "s"

    yield answer
    for thread in threads:
        thread.join(10)


def test_text_becomes_families():
    assert parse(TEXT) == FAMILIES


def test_they_are_read_over_a_unix_socket(answering):
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(TEXT)}\r\n\r\n"

    assert read_metrics(answering((head + TEXT).encode())) == FAMILIES


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", id="another status"),
        pytest.param(b"", id="no answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", id="half an answer"),
    ],
)
def test_what_is_no_answer_is_refused(answering, said):
    with pytest.raises(MetricsUnavailable):
        read_metrics(answering(said))

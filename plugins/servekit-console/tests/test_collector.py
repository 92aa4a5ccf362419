# SPDX-License-Identifier: Apache-2.0
"""Front-ends ask the observer for the history at a Unix socket."""

import errno
import socket
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer
from threading import Event, Thread

import msgspec
import pytest
import servekit_console.collector
from servekit_console.collector import SAMPLES, Collector, Reader

from tests.waiting import wait_until

from .test_history import sample, trace

WAIT_S = 180.0
PAUSE_S = 3.0  #: in which a process stands still


class FrontEnd(BaseHTTPRequestHandler):
    """Answers as the management listener does."""

    status = 200
    asked = Event()

    def do_GET(self):
        self.asked.set()
        body = msgspec.msgpack.encode([sample(7)]) if self.path == SAMPLES else b""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "unix"

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def front_end(tmp_path):
    class Own(FrontEnd):
        asked = Event()

    with UnixStreamServer(str(tmp_path / "manage.sock"), Own) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Own
        server.shutdown()
        thread.join(WAIT_S)


@pytest.fixture
def collector(front_end, tmp_path, monkeypatch):
    monkeypatch.setattr(servekit_console.collector, "INTERVAL_S", 600.0)  # there is one sample
    started = Collector(tmp_path)
    started.start()
    return started


def test_a_front_end_gets_traces_and_history_of_the_observer(collector, front_end, tmp_path):
    collector.add_trace(trace("slow-one", 2.0))
    reader = Reader(tmp_path)

    assert wait_until(reader.traces, "no answer")[0].request_id == "slow-one"
    assert wait_until(lambda: reader.trace("slow-one"), "no answer").duration_s == 2.0
    assert reader.trace("other") is None
    assert front_end.asked.wait(WAIT_S)
    assert list(reader.history(["waiting"]).times) == []  # the first sample has none before it


def test_an_observer_that_the_machine_leaves_little_time_is_waited_for(collector, tmp_path):
    collector.add_trace(trace("slow-one", 2.0))
    reader, found = Reader(tmp_path), []
    wait_until(reader.traces, "no answer")
    asking = Thread(target=lambda: found.extend(reader.traces()))
    with collector._lock:
        asking.start()
        asking.join(PAUSE_S)
    asking.join(WAIT_S)

    assert [each.request_id for each in found] == ["slow-one"]


def test_without_an_observer_there_is_no_history(tmp_path):
    reader = Reader(tmp_path)

    assert reader.traces() == []
    assert reader.trace("x") is None
    assert reader.history(["waiting"]).series == {}


def test_a_question_that_finds_no_descriptor_does_not_end_the_answers(tmp_path, monkeypatch):
    accept, failures = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

    def fail_once(listener):
        if failures:
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fail_once)
    started = Collector(tmp_path)
    Thread(target=started._answer, daemon=True).start()
    started.add_trace(trace("slow-one", 2.0))

    assert wait_until(Reader(tmp_path).traces, "no answer")[0].request_id == "slow-one"

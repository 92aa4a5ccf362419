# SPDX-License-Identifier: Apache-2.0
"""What comes in over the sockets reaches the hooks, whoever sends it."""

import errno
import socket
import threading

import msgspec
import pytest

from servekit.extension import BatchServed, LogRecord, ModelUnloaded
from servekit.extension.events import EventsLost, NoMoreEvents
from servekit.ipc.trace_notes import RequestNote, TraceNotes
from servekit.observer.metrics import MetricsUnavailable
from servekit.observer.receiver import EventReceiver, export_metrics
from tests.waiting import wait_until

WAIT_S = 60.0
GONE = ModelUnloaded(time_s=1.0, model="m", version="1", digest="d", served_s=2.0, reason="stopped")
SAMPLE = BatchServed(
    time_s=1.0, model="m", version="1", stage="", replica=0, size=3, batches=7, queue_s=0.1,
    decode_s=0.2, predict_s=0.3, encode_s=0.4, statuses={200: 2, 422: 1},
)  # fmt: skip
LINE = LogRecord(
    time_s=1.0, level="info", name="x", subject="servekit", text="t", fields={"models": ["a"]}
)


class Recorder:
    """Stands in for a subscriber."""

    def __init__(self):
        self.offered = []
        self.lost = 0
        self.came = threading.Event()

    def offer(self, hook, *arguments):
        self.offered += [(hook, each) for each in arguments]
        self.came.set()

    def lose(self, count):
        self.lost += count


@pytest.fixture
def path(tmp_path):
    return tmp_path / "observer.sock"


@pytest.fixture
def received(path):
    """Run a receiver; return its recorder and what waits for its end."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()
    recorder = Recorder()
    thread = threading.Thread(target=EventReceiver(listener, [recorder]).run, daemon=True)
    thread.start()

    def wait():
        thread.join(WAIT_S)
        assert not thread.is_alive()
        return recorder

    wait.recorder = recorder
    yield wait
    listener.close()


def connect(path):
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sender.connect(str(path))
    return sender


def send(sender, *messages):
    for message in messages:
        sender.send(msgspec.msgpack.encode(message))


def test_events_of_several_senders_are_offered(path, received):
    with connect(path) as supervisor, connect(path) as front_end:
        send(front_end, [SAMPLE, SAMPLE])
        front_end.close()
        send(supervisor, GONE, LINE, EventsLost(count=3))
        wait_until(lambda: len(received.recorder.offered) == 4, "four events")
        send(supervisor, NoMoreEvents())
        recorder = received()

    assert sorted(recorder.offered, key=lambda each: each[0]) == [
        ("batch_served", SAMPLE),
        ("batch_served", SAMPLE),
        ("export_logs", LINE),
        ("model_unloaded", GONE),
    ]
    assert recorder.lost == 3


def test_notes_of_requests_are_offered_as_events(path, received):
    request = RequestNote("r", "", "", "m", "1", b"POST", b"/m", 200, True, 1.0, 1.0, 2.0, 3.0, b"")
    with connect(path) as front_end:
        send(front_end, TraceNotes(1000.0, [request, request], [[], []], []), NoMoreEvents())
        recorder = received()

    assert [hook for hook, _ in recorder.offered] == ["request_traced"] * 2
    (event, _) = [event for _, event in recorder.offered]
    assert (event.time_s, event.duration_s, event.path) == (1001.0, 2.0, "/m")
    assert [each.name for each in event.spans] == ["send"]


def test_what_is_no_event_is_logged_and_read_over(path, received, caplog):
    with connect(path) as sender:
        sender.send(b"\x80nonsense")
        send(sender, {"event": "unheard_of"}, GONE, NoMoreEvents())
        recorder = received()

    assert recorder.offered == [("model_unloaded", GONE)]
    assert len(caplog.records) == 2


def test_metrics_are_offered_until_the_end(monkeypatch, tmp_path):
    answers = iter([["first"], ["second"]])
    end, recorder = threading.Event(), Recorder()

    def read(path):
        found = next(answers, None)
        if found is None:
            end.set()
            return ["last"]
        return found

    monkeypatch.setattr("servekit.observer.receiver.read_metrics", read)
    export_metrics([recorder], tmp_path, 0.001, end).join(WAIT_S)

    assert [argument for _, argument in recorder.offered] == [["first"], ["second"], ["last"]]


def test_metrics_that_cannot_be_read_are_said_once_and_tried_again(monkeypatch, tmp_path, caplog):
    tries, end, recorder = [], threading.Event(), Recorder()

    def read(path):
        tries.append(path)
        if len(tries) == 3:
            end.set()
        raise MetricsUnavailable("no such file")

    monkeypatch.setattr("servekit.observer.receiver.read_metrics", read)
    export_metrics([recorder], tmp_path / "s", 0.001, end).join(WAIT_S)

    assert (len(tries), recorder.offered) == (3, [])
    assert len(caplog.records) == 1


class Exhausted(socket.socket):
    """A listener whose first connection finds no descriptor."""

    failures = 1

    def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_connection_that_finds_no_descriptor_is_accepted_later(path):
    with Exhausted(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        recorder = Recorder()
        thread = threading.Thread(target=EventReceiver(listener, [recorder]).run, daemon=True)
        thread.start()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sender:
            sender.connect(str(path))
            sender.send(msgspec.msgpack.encode(GONE))
            sender.send(msgspec.msgpack.encode(NoMoreEvents()))
            thread.join(WAIT_S)

    assert not thread.is_alive()
    assert recorder.offered

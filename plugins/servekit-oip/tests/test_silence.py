# SPDX-License-Identifier: Apache-2.0
"""Clients of gRPC that fall silent, at every byte: on a clock that the test sets."""

import socket
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")
pytest.importorskip("hpack")

import gevent
from hpack import Encoder
from servekit_oip.grpc import call, frames, http2, incoming, silence, streams
from servekit_oip.grpc.http2 import GrpcConnection
from servekit_oip.grpc.messages import SERVICE, message_class

from servekit.frontend.exchange.time_slices import TimeSlices
from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings

SETTINGS = frames.frame(frames.SETTINGS, 0, 0)
MESSAGE = message_class("ModelInferRequest")(model_name="m").SerializeToString()
CONTENT = b"\0" + len(MESSAGE).to_bytes(4, "big") + MESSAGE
LIMITS = Settings(header_timeout=1, body_timeout=2, send_timeout=4, keep_alive=8)
LONGEST_S = 40.0  #: of the clock; all timeouts in a row are shorter


class Clock:
    """Replaces ``monotonic`` where timeouts are measured."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    for module in (call, http2, incoming, silence, streams):
        monkeypatch.setattr(module, "monotonic", found)
    return found


class Link:
    """A connection without a server, and its client."""

    def __init__(self, clock, settings=LIMITS):
        self.clock, self.asked, self.received = clock, [], b""
        loop = gevent.get_hub().loop
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self._slices = TimeSlices(loop)
        host = SimpleNamespace(
            settings=settings,
            loop=loop,
            connections=SimpleNamespace(is_draining=False, discard=lambda _: None),
            pressure=Pressure(0, 1.0),
            slices=self._slices,
            guard=None,
            handle=lambda exchange, _: self.asked.append(exchange),
            find=lambda *_: None,
        )
        self.connection = GrpcConnection(ours, ("127.0.0.1", 1), host)

    def send(self, data):
        """Send *data*, and let the server read all of it, in as many turns as it takes."""
        self.connection.on_data(data)
        while self._slices._waiting:
            gevent.sleep(0)

    def wait(self, seconds, *, answers_pings=False):
        """Let the time pass, look by look."""
        end = self.clock.now + seconds
        while not self.connection.is_closed and self.connection.expires <= end:
            assert self.connection.expires >= self.clock.now - 1
            self.clock.now = max(self.clock.now, self.connection.expires)
            self.connection.expire()
            self._read(answers_pings=answers_pings)
        self.clock.now = end

    def _read(self, *, answers_pings):
        gevent.sleep(0)
        try:
            data = self.peer.recv(1 << 20)
        except (BlockingIOError, ConnectionError):
            return
        self.received += data
        if answers_pings and http2.PING in data:
            self.send(frames.frame(frames.PING, 1, 0, bytes(8)))


@contextmanager
def linked(*arguments):
    link = Link(*arguments)
    try:
        yield link
    finally:
        link.connection.close()
        gevent.sleep(0)
        link.peer.close()


def begun(method, flags=frames.END_HEADERS):
    fields = [(":method", "POST"), (":scheme", "http"), (":path", f"/{SERVICE}/{method}")]
    fields += [("content-type", "application/grpc"), ("te", "trailers")]
    return frames.frame(frames.HEADERS, flags, 1, Encoder().encode(fields))


def data(content, flags=0):
    return frames.frame(frames.DATA, flags, 1, content)


def conversation(method):
    """Return what a client sends for one call, in frames that cut everything in two."""
    head = begun(method, flags=0)
    block = head[frames.HEAD :]
    return b"".join(
        [
            SETTINGS,
            frames.frame(frames.HEADERS, 0, 1, block[:9]),
            frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[9:]),
            *(data(CONTENT[:3]), data(CONTENT[3:6]), data(CONTENT[6:])),
            data(b"", frames.END_STREAM),
        ]
    )


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer", "ServerLive"])
def test_a_client_that_falls_silent_at_any_byte_loses_its_connection(clock, method):
    sent = conversation(method)
    for size in range(len(sent) + 1):
        with linked(clock) as link:
            for at in range(size):
                link.send(sent[at : at + 1])
            link.wait(LONGEST_S)
            assert link.connection.is_closed, size


@pytest.mark.parametrize(
    ("sent", "after_s"),
    [
        pytest.param(b"", 1, id="nothing"),
        pytest.param(SETTINGS[:5], 1, id="half the head of a frame"),
        pytest.param(SETTINGS, 8, id="no call"),
        pytest.param(SETTINGS + begun("ModelInfer") + data(CONTENT)[:12], 2, id="half a frame"),
    ],
)
def test_a_silent_connection_ends_after_the_timeout_of_its_state(clock, sent, after_s):
    with linked(clock) as link:
        link.send(sent)
        link.wait(after_s - 0.2)
        assert not link.connection._is_over
        link.wait(0.5)
        assert link.connection._is_over


@pytest.mark.parametrize("size", [0, 3, 6, len(CONTENT)])
def test_a_call_without_its_whole_message_fails_after_body_timeout(clock, size):
    with linked(clock) as link:
        link.send(SETTINGS + begun("ModelInfer") + (data(CONTENT[:size]) if size else b""))
        link.wait(1.8)
        assert link.connection._streams.has_calls
        link.wait(0.5)
        assert not link.connection._streams.has_calls
        assert not link.connection.is_closed


def test_a_client_that_answers_pings_keeps_its_silent_stream(clock):
    with linked(clock) as link:
        link.send(SETTINGS + begun("ModelStreamInfer"))
        link.wait(100, answers_pings=True)
        assert not link.connection.is_closed
        link.wait(LONGEST_S)
        assert link.connection.is_closed


def test_the_message_of_a_stream_has_its_time_after_a_long_pause(clock):
    with linked(clock) as link:
        link.send(SETTINGS + begun("ModelStreamInfer"))
        link.send(data(CONTENT))
        link.wait(100, answers_pings=True)
        link.send(data(CONTENT[:3]))
        link.wait(1, answers_pings=True)
        assert link.connection._streams.has_calls
        link.wait(1.5, answers_pings=True)
        assert not link.connection._streams.has_calls


@pytest.mark.parametrize("rate", [0, 1000])
def test_a_slow_frame_that_keeps_to_the_rate_arrives(clock, rate):
    limits = Settings(header_timeout=1, body_timeout=2, body_rate=rate)
    content = bytes(60_000)
    sent = data(b"\0" + len(content).to_bytes(4, "big") + content, frames.END_STREAM)
    with linked(clock, limits) as link:
        link.send(SETTINGS + begun("ModelInfer"))
        for at in range(0, len(sent), 2000):
            link.send(sent[at : at + 2000])
            link.wait(1)
        assert link.connection._silence.frames == 3
        assert not link.connection._is_over


def test_a_call_in_progress_is_not_the_silence_of_its_client(clock):
    with linked(clock) as link:
        link.send(SETTINGS + begun("ModelStreamInfer"))
        link.wait(60, answers_pings=True)
        link.connection._streams.sender.calls[1].end()
        link.wait(7)
        assert not link.connection._is_over
        link.wait(2)
        assert link.connection._is_over

# SPDX-License-Identifier: Apache-2.0
"""Frames at random, to a connection without a server: nothing is left, and nothing raises."""

import logging
import random
import socket
from types import SimpleNamespace

import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")
pytest.importorskip("hpack")

import gevent
from hpack import Encoder
from servekit_oip.grpc import frames
from servekit_oip.grpc.http2 import GrpcConnection
from servekit_oip.grpc.messages import SERVICE, message_class

from servekit.extension import HttpResponse
from servekit.frontend.exchange.time_slices import TimeSlices
from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings
from tests.frontend.garbage import no_garbage

pytestmark = pytest.mark.slow

ASKED = message_class("ModelInferRequest")(model_name="m", raw_input_contents=[bytes(40)])
MESSAGE = ASKED.SerializeToString()
CONTENT = b"\0" + len(MESSAGE).to_bytes(4, "big") + MESSAGE
PATHS = (
    *(f"/{SERVICE}/{name}" for name in ("ModelInfer", "ModelStreamInfer", "ServerLive")),
    *("/grpc.health.v1.Health/Watch", "/x/y"),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)
SEEDS = range(300)


class Fuzzer:
    """Sends frames to a connection, and answers its requests, or not."""

    def __init__(self, seed):
        self.random, self.encoder, self.stream = random.Random(seed), Encoder(), 1
        self.pending = []
        loop = gevent.get_hub().loop
        connections = SimpleNamespace(is_draining=False, discard=lambda _: None)
        self.host = SimpleNamespace(
            settings=Settings(max_body=100_000),
            loop=loop,
            connections=connections,
            pressure=Pressure(0, 1.0),
            slices=TimeSlices(loop),
            guard=None,
            handle=lambda exchange, _: self.pending.append(exchange),
            find=lambda *_: None,
        )
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.connection = GrpcConnection(ours, ("127.0.0.1", 1), self.host)

    def run(self):
        for _ in range(self.random.randrange(1, 60)):
            self._send(self._frame())
            if self.random.random() < 0.5:
                self._answer()
            if self.random.random() < 0.3:
                gevent.sleep(0)
            if self.random.random() < 0.2 and not self.connection.is_closed:
                self.connection.expire()
            if self.random.random() < 0.05 and not self.connection.is_closed:
                self.host.connections.is_draining = True
                self.connection.close_if_idle(0)
        self.connection.close()
        gevent.sleep(0)
        self.peer.close()

    def _send(self, data):
        at = 5 if self.random.random() < 0.3 else len(data)
        for part in (data[:at], data[at:]):
            if part and not self.connection.is_closed:
                self.connection.on_data(part)

    def _answer(self):
        for exchange in self.pending:
            status = self.random.choice([200, 200, 400, 503])
            body = bytes(self.random.choice([0, 10, 70_000]))
            exchange.respond(HttpResponse(status, body, "x/y", "id"))
        self.pending.clear()

    def _frame(self):
        choose, below = self.random.choice, self.random.randrange
        stream = choose([self.stream, max(1, self.stream - 2), below(1, 40)])
        last = max(1, stream - 2)
        kind = choose([frames.HEADERS] * 3 + [frames.DATA] * 4 + [3, 4, 6, 8, 9, below(12)])
        if kind == frames.HEADERS:
            self.stream = max(self.stream, stream) + 2
            return frames.frame(kind, choose([4, 4, 4, 5, 0, 0x24, 0xC]), stream, self._block())
        if kind == frames.DATA:
            flags = choose([0, 0, 1, 1, 8, 9])
            return frames.frame(kind, flags, choose([last, last, stream]), self._content())
        content = self.random.randbytes(choose([0, 4, 6, 8, 12, 30]))
        return frames.frame(kind, choose([0, 0, 1, 4]), choose([0, last, stream]), content)

    def _block(self):
        fields = [(":method", "POST"), (":scheme", "http"), (":path", self.random.choice(PATHS))]
        fields += [("content-type", "application/grpc"), ("te", "trailers")]
        if self.random.random() < 0.1:
            fields.pop(self.random.randrange(len(fields)))
        if self.random.random() < 0.1:
            self.random.shuffle(fields)
        if self.random.random() < 0.2:
            fields.append(("grpc-timeout", self.random.choice(["1n", "5S", "x", "100m"])))
        if self.random.random() < 0.2:
            fields.append(("grpc-encoding", self.random.choice(["gzip", "other"])))
        return self.encoder.encode(fields)

    def _content(self):
        cut = CONTENT[: self.random.randrange(len(CONTENT))]
        zeros = bytes(self.random.randrange(300))
        others = [b"\1" + CONTENT[1:], CONTENT * 3, b"\0\0\1\0\0" + bytes(1000)]
        return self.random.choice([CONTENT, CONTENT, cut, zeros, b"", *others])


def test_random_frames_leave_nothing_behind(caplog):
    with caplog.at_level(logging.ERROR, logger="servekit.grpc"):
        for seed in SEEDS:
            fuzzer = Fuzzer(seed)
            fuzzer.run()
            pressure, budget = fuzzer.host.pressure, fuzzer.connection._streams.budget
            assert (pressure.bodies, pressure._answers, budget._granted) == (0, 0, 0), seed
            assert not pressure.shedder._paces, seed
            assert not caplog.records, seed


@pytest.mark.parametrize("seed", range(20))
def test_closed_connection_is_freed_at_once(seed):
    with no_garbage():
        fuzzer = Fuzzer(seed)
        fuzzer.run()
        fuzzer.pending.clear()
        del fuzzer.host.handle  # it refers to the fuzzer
        for _ in range(3):
            gevent.sleep(0)  # what it has put off
        del fuzzer

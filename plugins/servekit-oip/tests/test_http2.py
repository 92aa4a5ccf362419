# SPDX-License-Identifier: Apache-2.0
"""The HTTP/2 of gRPC, spoken byte by byte: its rules, and clients that break them."""

import socket
from contextlib import closing

import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")
pytest.importorskip("hpack")

from hpack import Encoder
from servekit_oip.grpc import frames
from servekit_oip.grpc.messages import SERVICE, message_class

from servekit.testing import ServedModel

from .oip_models import write_models

pytestmark = pytest.mark.e2e
WAIT_S = 30.0
LIVE = f"/{SERVICE}/ServerLive"
ENHANCE_YOUR_CALM, COMPRESSION, FRAME_SIZE, PROTOCOL = 11, 9, 6, 1


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    store = write_models(tmp_path_factory.mktemp("http2") / "store", ("simple",))
    options = {"plugin": ["oip.grpc=127.0.0.1:0"], "header_timeout": 1, "send_timeout": 1}
    with ServedModel(store / "simple", **options) as model:
        model.wait_ready()
        shown = model.log.wait_for("output", subject="process/oip/grpc")["message"]
        host, _, port = shown.removeprefix("gRPC at ").rpartition(":")
        yield host, int(port)


class Peer:
    """One connection."""

    def __init__(self, address, settings=b""):
        self.socket = socket.create_connection(address, timeout=WAIT_S)
        self._encoder, self._buffer = Encoder(), bytearray()
        self.send(frames.PREFACE, frames.frame(frames.SETTINGS, 0, 0, settings))

    def close(self):
        self.socket.close()

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))

    def block(self, path=LIVE, **more):
        fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x"}
        fields |= {"content-type": "application/grpc", "te": "trailers"}
        more = {name.replace("_", "-"): value for name, value in more.items()}
        return self._encoder.encode(list((fields | more).items()))

    def head(self, stream, *, flags=frames.END_HEADERS, **fields):
        return frames.frame(frames.HEADERS, flags, stream, self.block(**fields))

    def call(self, stream, message=b"", **fields):
        content = b"\0" + len(message).to_bytes(4, "big") + message
        self.send(
            self.head(stream, **fields),
            frames.frame(frames.DATA, frames.END_STREAM, stream, content),
        )

    def until(self, wanted):
        """Return the first frame for which *wanted* is true; ``None``: the server has closed."""
        while True:
            found, size = frames.frames_of(self._buffer, 2**24)
            del self._buffer[:size]
            for at, each in enumerate(found):
                if wanted(each):
                    rest = (frames.frame(*left[:3], left.content) for left in found[at + 1 :])
                    self._buffer[:0] = b"".join(rest)
                    return each
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._buffer += data

    def ended_with(self):
        """Return the code of the GOAWAY, after which the connection is closed."""
        goodbye = self.until(lambda each: each.kind == frames.GOAWAY)
        assert self.until(lambda _: False) is None
        return None if goodbye is None else int.from_bytes(goodbye.content[4:8], "big")


def is_last(each):
    return each.kind == frames.HEADERS and bool(each.flags & frames.END_STREAM)


@pytest.fixture
def peer(address):
    with closing(Peer(address)) as found:
        yield found
    with closing(Peer(address)) as other:  # nobody else is harmed
        other.call(1)
        assert b"grpc-status\x010" in other.until(is_last).content


def test_a_call_and_a_ping(peer):
    peer.call(1)
    assert peer.until(lambda each: each.kind == frames.DATA).content == b"\0\0\0\0\x02\x08\x01"
    peer.send(frames.frame(frames.PING, 0, 0, b"12345678"))
    answer = peer.until(lambda each: each.kind == frames.PING)

    assert (answer.flags, answer.content) == (1, b"12345678")


def test_padding_priority_and_continuation_are_understood(peer):
    block = peer.block()
    first = bytes((3,)) + bytes(5) + block[:10] + bytes(3)
    peer.send(
        frames.frame(frames.HEADERS, 0x8 | 0x20, 1, first),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[10:]),
        frames.frame(99, 0, 1, b"unknown"),
        frames.frame(frames.DATA, frames.END_STREAM | 0x8, 1, b"\x02" + bytes(5) + bytes(2)),
    )

    assert b"grpc-status\x010" in peer.until(is_last).content


def test_nothing_is_sent_without_room(address):
    window = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")
    with closing(Peer(address, window)) as peer:
        peer.call(1)
        assert peer.until(lambda each: each.kind == frames.HEADERS).stream == 1
        peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))
        assert peer.until(lambda each: each.kind in (frames.PING, frames.DATA)).kind == frames.PING
        peer.send(frames.frame(frames.WINDOW_UPDATE, 0, 1, (100).to_bytes(4, "big")))
        assert peer.until(is_last).stream == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"path": "/nobody/Nothing"}, b"12", id="no such method"),
        pytest.param({"path": f"/{SERVICE}/ServerLive2"}, b"12", id="no such call"),
        pytest.param({"grpc_timeout": "0n"}, b"4", id="no time"),
        pytest.param({"grpc_timeout": "soon"}, b"4", id="no number"),
    ],
)
def test_calls_that_are_refused(peer, fields, status):
    peer.call(1, **fields)

    assert b"grpc-status" + bytes((len(status),)) + status in peer.until(is_last).content


def test_a_message_that_decompresses_to_too_much(peer):
    import zlib

    bomb = zlib.compress(bytes(20 * 2**20), wbits=31)
    content = b"\1" + len(bomb).to_bytes(4, "big") + bomb
    peer.send(peer.head(1, grpc_encoding="gzip"))
    for start in range(0, len(content), 16_384):
        piece = content[start : start + 16_384]
        peer.send(frames.frame(frames.DATA, 0, 1, piece))

    assert b"grpc-status\x018" in peer.until(is_last).content


def resets(peer):
    for stream in range(1, 1001, 2):
        peer.send(peer.head(stream), frames.frame(frames.RST_STREAM, 0, stream, bytes(4)))


def continuations(peer):
    peer.send(frames.frame(frames.HEADERS, 0, 1, peer.block()))
    for _ in range(100):
        peer.send(frames.frame(frames.CONTINUATION, 0, 1, bytes(1000)))


@pytest.mark.parametrize(
    ("act", "code"),
    [
        pytest.param(resets, ENHANCE_YOUR_CALM, id="calls that are reset at once"),
        pytest.param(continuations, ENHANCE_YOUR_CALM, id="fields without an end"),
        pytest.param(
            lambda peer: peer.send(frames.frame(frames.HEADERS, 4, 1, b"\xff" * 20)),
            COMPRESSION,
            id="a block of nonsense",
        ),
        pytest.param(
            lambda peer: peer.send(b"\x7f\xff\xff\0\0\0\0\0\1"), FRAME_SIZE, id="a huge frame"
        ),
        pytest.param(
            lambda peer: peer.send(frames.frame(frames.DATA, 0, 5, b"x")),
            PROTOCOL,
            id="data without a call",
        ),
        pytest.param(
            lambda peer: peer.send(
                frames.frame(frames.HEADERS, 0, 1, b""), frames.frame(frames.PING, 0, 0, bytes(8))
            ),
            PROTOCOL,
            id="an interrupted block",
        ),
    ],
)
def test_a_client_that_breaks_the_rules_loses_its_connection(peer, act, code):
    try:
        act(peer)
    except ConnectionError:  # it is closed already
        return
    assert peer.ended_with() in (code, None)


def test_another_protocol_is_turned_away(address):
    with closing(socket.create_connection(address, timeout=WAIT_S)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        found = b""
        while data := client.recv(4096):
            found += data

    assert frames.frame(frames.GOAWAY, 0, 0)[3:4] in found


def test_a_client_that_says_nothing_is_disconnected(address):
    with closing(socket.create_connection(address, timeout=WAIT_S)) as client:
        while client.recv(4096):
            pass


def test_a_client_that_takes_nothing_is_disconnected(address):
    window = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")
    with closing(Peer(address, window)) as peer:
        peer.call(1)
        assert peer.ended_with() == ENHANCE_YOUR_CALM


def test_a_large_message_both_ways_in_small_frames(peer):
    asked = message_class("ModelInferRequest")(model_name="simple")
    rows = 20_000
    for name in ("INPUT0", "INPUT1"):
        asked.inputs.add(name=name, datatype="INT32", shape=[rows, 16])
        asked.raw_input_contents.append(bytes(rows * 64))
    message = asked.SerializeToString()
    content = b"\0" + len(message).to_bytes(4, "big") + message
    peer.send(frames.frame(frames.WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4, "big")))
    peer.send(peer.head(1, path=f"/{SERVICE}/ModelInfer"))
    peer.send(frames.frame(frames.WINDOW_UPDATE, 0, 1, (2**30).to_bytes(4, "big")))
    for start in range(0, len(content), 16_384):
        flags = frames.END_STREAM if start + 16_384 >= len(content) else 0
        peer.send(frames.frame(frames.DATA, flags, 1, content[start : start + 16_384]))

    assert b"grpc-status\x010" in peer.until(is_last).content

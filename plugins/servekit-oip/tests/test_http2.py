# SPDX-License-Identifier: Apache-2.0
"""The HTTP/2 of gRPC, spoken byte by byte: its rules, and clients that break them."""

import socket
from contextlib import closing, contextmanager
from time import monotonic
from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")
pytest.importorskip("hpack")

from hpack import Encoder
from servekit_oip.grpc import frames
from servekit_oip.grpc.incoming import IncomingMessages
from servekit_oip.grpc.limits import MessageBudget
from servekit_oip.grpc.messages import SERVICE, message_class
from servekit_oip.grpc.sending import GrpcSender

from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings
from servekit.testing import ServedModel

from .oip_models import write_models

pytestmark = pytest.mark.e2e
WAIT_S = 120.0
LIVE = f"/{SERVICE}/ServerLive"
ENHANCE_YOUR_CALM, COMPRESSION, FRAME_SIZE, STREAM_CLOSED, FLOW_CONTROL, PROTOCOL = (
    11,
    9,
    6,
    5,
    3,
    1,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("http2") / "store", ("simple",))


@pytest.fixture(scope="module")
def address(store):
    """Return where a server listens that waits for its clients."""
    with served(store, header_timeout=60, send_timeout=60, body_timeout=60) as found:
        yield found


@pytest.fixture(scope="module")
def impatient_address(store):
    """Return where a server listens that soon gives up clients that are silent or take nothing."""
    with served(store, header_timeout=2, send_timeout=1, body_timeout=2) as found:
        yield found


@contextmanager
def served(store, **options):
    """Yield host and port of a server."""
    options |= {"plugin": ["oip.grpc=127.0.0.1:0"], "max_body": "16MiB", "arena": "8MiB"}
    with ServedModel(store / "simple", **options) as model:
        model.wait_ready()
        shown = model.log.wait_for("output", subject="front-end")["message"]
        host, _, port = shown.removeprefix("gRPC at ").rpartition(":")
        yield host, int(port)


class ReceivedFrame(NamedTuple):
    """One frame of the server."""

    kind: int
    flags: int
    stream: int
    content: bytes


def frames_of(data):
    """Return the whole frames at the beginning of *data*, and how many bytes they are."""
    found, at = [], 0
    while len(data) - at >= frames.HEAD:
        high, low, kind, flags, stream = frames.FRAME.unpack_from(data, at)
        end = at + frames.HEAD + (high << 8 | low)
        if len(data) < end:
            break
        found.append(ReceivedFrame(kind, flags, stream, bytes(data[at + frames.HEAD : end])))
        at = end
    return found, at


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
            found, size = frames_of(self._buffer)
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


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({":method": "GET"}, b"405", id="method"),
        pytest.param({"content-type": "application/json"}, b"415", id="media type"),
    ],
)
def test_what_is_no_call_of_grpc_gets_a_status_of_http(peer, fields, status):
    peer.send(frames.frame(frames.HEADERS, 5, 1, peer.block(**fields)))

    assert status in peer.until(is_last).content


MALFORMED = {
    "no method": [(":scheme", "http"), (":path", LIVE)],
    "no path": [(":method", "POST"), (":scheme", "http")],
    "a path with a space": [(":method", "POST"), (":scheme", "http"), (":path", "/a b")],
    "a path without a slash": [(":method", "POST"), (":scheme", "http"), (":path", "a")],
    "another scheme": [(":method", "POST"), (":scheme", "ftp"), (":path", LIVE)],
    "a pseudo-header twice": [(":method", "POST")] * 2 + [(":scheme", "http"), (":path", LIVE)],
    "a pseudo-header after others": [
        *((":method", "POST"), (":scheme", "http"), ("te", "trailers"), (":path", LIVE)),
    ],
    "an unknown pseudo-header": [
        *((":method", "POST"), (":scheme", "http"), (":path", LIVE), (":status", "200")),
    ],
} | {
    f"{name!r}: {value!r}": [
        *((":method", "POST"), (":scheme", "http"), (":path", LIVE), (name, value)),
    ]
    for name, value in (
        *(("connection", "close"), ("transfer-encoding", "chunked"), ("te", "gzip")),
        *(("Upper", "x"), ("a b", "x"), ("x", "a\0b"), ("x", "a\r\nb")),
    )
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_call_ends_and_others_do_not(peer, fields):
    peer.send(frames.frame(frames.HEADERS, 4, 1, Encoder().encode(fields)))
    reset = peer.until(lambda each: each.kind == frames.RST_STREAM)
    assert (reset.stream, int.from_bytes(reset.content, "big")) == (1, PROTOCOL)

    peer.socket.close()  # the table of the encoder is another one


def test_a_call_ends_once(peer):
    peer.call(1, path=f"/{SERVICE}/ModelStreamInfer")
    peer.call(3, path="/grpc.health.v1.Health/Watch")
    peer.send(peer.head(3, flags=frames.END_HEADERS | frames.END_STREAM))
    reset = peer.until(lambda each: each.kind == frames.RST_STREAM)
    assert (reset.stream, int.from_bytes(reset.content, "big")) == (3, STREAM_CLOSED)

    peer.call(5)
    assert peer.until(is_last).stream in (1, 5)


def test_trailers_that_are_not_the_end_are_refused(peer):
    peer.send(peer.head(1), peer.head(1))
    reset = peer.until(lambda each: each.kind == frames.RST_STREAM)

    assert (reset.stream, int.from_bytes(reset.content, "big")) == (1, PROTOCOL)


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
            lambda peer: peer.send(frames.frame(frames.HEADERS, 4, 1, b"\x20" * 65_000)),
            ENHANCE_YOUR_CALM,
            id="65,000 sizes of the table",
        ),
        pytest.param(
            lambda peer: peer.send(frames.frame(frames.HEADERS, 4, 1, b"\x82" * 700)),
            ENHANCE_YOUR_CALM,
            id="700 indexed fields",
        ),
        pytest.param(
            lambda peer: peer.send(peer.head(1, x="a" * 60_000)),
            ENHANCE_YOUR_CALM,
            id="a large block in one frame",
        ),
        pytest.param(
            lambda peer: peer.send(frames.frame(frames.HEADERS, 4, 1, b"\x40\x05ab")),
            COMPRESSION,
            id="a block that is cut off",
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

    assert found.startswith(b"HTTP/1.1 505")
    assert b"this port speaks gRPC" in found


def test_a_client_that_says_nothing_is_disconnected(impatient_address):
    with closing(socket.create_connection(impatient_address, timeout=WAIT_S)) as client:
        while client.recv(4096):
            pass


def test_a_client_that_takes_nothing_is_disconnected(impatient_address):
    window = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")
    with closing(Peer(impatient_address, window)) as peer:
        peer.call(1)
        assert peer.ended_with() == ENHANCE_YOUR_CALM


def large_message(rows=20_000):
    """Return a message of 2.5 MB for its default number of rows, as gRPC frames it."""
    asked = message_class("ModelInferRequest")(model_name="simple")
    for name in ("INPUT0", "INPUT1"):
        asked.inputs.add(name=name, datatype="INT32", shape=[rows, 16])
        asked.raw_input_contents.append(bytes(rows * 64))
    message = asked.SerializeToString()
    return b"\0" + len(message).to_bytes(4, "big") + message


def send_in_frames(peer, stream, content, *, is_whole):
    """Send *content* in small frames."""
    peer.send(frames.frame(frames.WINDOW_UPDATE, 0, stream, (2**30).to_bytes(4, "big")))
    for start in range(0, len(content), 16_384):
        flags = frames.END_STREAM if is_whole and start + 16_384 >= len(content) else 0
        peer.send(frames.frame(frames.DATA, flags, stream, content[start : start + 16_384]))


def test_a_large_message_both_ways_in_small_frames(peer):
    peer.send(frames.frame(frames.WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4, "big")))
    peer.send(peer.head(1, path=f"/{SERVICE}/ModelInfer"))
    send_in_frames(peer, 1, large_message(), is_whole=True)

    assert b"grpc-status\x010" in peer.until(is_last).content


def test_a_client_that_takes_byte_after_byte_is_disconnected(impatient_address):
    window = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")
    one_byte = frames.frame(frames.WINDOW_UPDATE, 0, 1, (1).to_bytes(4, "big"))
    until = monotonic() + WAIT_S
    with closing(Peer(impatient_address, window)) as peer:
        peer.send(peer.head(1, path=f"/{SERVICE}/ModelInfer"))
        send_in_frames(peer, 1, large_message(), is_whole=True)
        peer.socket.settimeout(0.2)
        while True:
            assert monotonic() < until, f"still connected after {WAIT_S} s"
            try:
                peer.send(one_byte)
                if not peer.socket.recv(65_536):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break


def test_small_messages_that_are_not_whole_count_as_held():
    host = SimpleNamespace(pressure=Pressure(0, 1.0), settings=Settings())
    streams = SimpleNamespace(host=host, budget=MessageBudget(), sender=SimpleNamespace(write=list))
    call = SimpleNamespace(streams=streams, id=1, find_route=None, waiting=0, is_over=False)
    taken = []
    call.note = taken.append
    messages = IncomingMessages(call)

    messages.take(b"\0" + (1000).to_bytes(4, "big") + bytes(600), 605)
    assert host.pressure.bodies == 600
    messages.take(bytes(400), 400)
    assert host.pressure.bodies == 1000  # its handler has not taken it
    taken[0].release(streams)
    assert host.pressure.bodies == 0


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        pytest.param("ModelInfer", 1, id="before its end"),
        pytest.param("ModelInfer", 2, id="in its middle"),
        pytest.param("ModelStreamInfer", 1, id="on a stream"),
    ],
)
def test_large_messages_that_are_given_up_leave_no_shared_memory(peer, method, parts):
    content = large_message()
    for stream in range(1, 13, 2):  # together they would need twice the arena
        peer.send(peer.head(stream, path=f"/{SERVICE}/{method}"))
        send_in_frames(peer, stream, content[: len(content) // parts], is_whole=False)
        peer.send(frames.frame(frames.RST_STREAM, 0, stream, bytes(4)))
    peer.send(frames.frame(frames.WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4, "big")))
    peer.send(peer.head(13, path=f"/{SERVICE}/ModelInfer"))
    send_in_frames(peer, 13, content, is_whole=True)
    found = peer.until(lambda each: is_last(each) and each.stream == 13)

    assert b"grpc-status\x010" in found.content


def pings(peer):
    for _ in range(3000):
        peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))


def small_pieces(peer):
    peer.send(peer.head(1))
    for _ in range(3000):
        peer.send(frames.frame(frames.DATA, 0, 1, b""))


@pytest.mark.parametrize("act", [pings, small_pieces])
def test_a_flood_of_frames_without_calls_ends_the_connection(peer, act):
    try:
        act(peer)
    except ConnectionError:  # it is closed already
        return
    assert peer.ended_with() in (ENHANCE_YOUR_CALM, None)


def test_settings_that_repeat_are_applied_once(monkeypatch):
    applied, sent = [], []
    sender = object.__new__(GrpcSender)
    monkeypatch.setattr(GrpcSender, "_set", lambda _, *setting: applied.append(setting))
    monkeypatch.setattr(GrpcSender, "write", lambda _, data: sent.append(data))
    monkeypatch.setattr(GrpcSender, "send_waiting", lambda _: None)
    sender.take_settings(
        b"".join(b"\0\4" + size.to_bytes(4, "big") for size in range(65_000, 75_000))
    )

    assert applied == [(4, 74_999)]  # with many calls, each would take long
    assert sent == [frames.frame(frames.SETTINGS, 1, 0)]


def test_settings_are_confirmed(peer):
    peer.send(frames.frame(frames.SETTINGS, 0, 0, b"\0\4" + (65_000).to_bytes(4, "big")))

    assert peer.until(lambda each: each.kind == frames.SETTINGS and each.flags & 1) is not None


def test_messages_of_one_connection_wait_for_each_other(peer):
    size = 12 * 2**20  # two do not fit into the budget of 16 MiB
    head = b"\0" + size.to_bytes(4, "big")
    for stream in (1, 3):  # no model, so no shared memory
        peer.send(peer.head(stream), frames.frame(frames.DATA, 0, stream, head))

    def widened(stream):
        update = peer.until(lambda each: each.kind == frames.WINDOW_UPDATE and each.stream)
        assert update.stream == stream
        return int.from_bytes(update.content, "big")

    assert widened(1) >= size - 65_535
    peer.send(frames.frame(frames.PING, 0, 0, bytes(8)))
    seen = peer.until(lambda each: each.kind == frames.PING or each.stream == 3)
    assert seen.kind == frames.PING
    peer.send(frames.frame(frames.RST_STREAM, 0, 1, bytes(4)))
    assert widened(3) >= size - 65_535


def test_a_message_that_stops_arriving_fails(impatient_address):
    with closing(Peer(impatient_address)) as peer:
        peer.send(peer.head(1), frames.frame(frames.DATA, 0, 1, b"\0\0\0\1\0abc"))

        assert b"grpc-status\x0214" in peer.until(is_last).content


def test_more_than_the_window_allows_ends_the_connection(peer):
    peer.send(peer.head(1), frames.frame(frames.DATA, 0, 1, b"\0\0\x10\0\0"))
    peer.send(peer.head(3), frames.frame(frames.DATA, 0, 3, b"\0\0\x9f\0\0"))
    peer.send(peer.head(5), frames.frame(frames.DATA, 0, 5, b"\0\0\x9f\0\0"))
    piece = frames.frame(frames.DATA, 0, 5, bytes(16_384))
    try:
        peer.send(*[piece] * 5)
    except ConnectionError:  # it is closed already
        return
    assert peer.ended_with() in (FLOW_CONTROL, None)

# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes come on an HTTP/2 connection: an answer, or an end that has a name."""

import contextlib
import socket
from time import monotonic
from types import SimpleNamespace

import pytest
from hpack import Decoder, Encoder, HPACKError
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import Frame, GoAwayFrame, HeadersFrame
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servekit_http2.connection import Http2Connection
from servekit_http2.frames import FrameError, FrameSplitter
from servekit_http2.hpack_decoder import FieldDecoder
from servekit_http2.hpack_encoder import FieldEncoder

from servekit.extension import HttpResponse
from servekit.frontend.memory import pressure as measured
from servekit.frontend.routing.router import Router
from tests.frontend.garbage import no_garbage
from tests.frontend.stand_ins import make_host

pytestmark = pytest.mark.slow

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
GET = Encoder().encode(
    [(":method", "GET"), (":scheme", "http"), (":path", "/ping"), (":authority", "a")],
    huffman=False,
)
POST = Encoder().encode(
    [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a"),
     ("content-length", "3"), ("expect", "100-continue")],
)  # fmt: skip


def framed(kind, flags, stream_id, payload):
    """Return the bytes of any frame."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big")
    return head + payload


payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([GET, POST, GET[:-1], b"abc", b"\0\0\0\1", b"\0\3\0\0\0\1", bytes(8)]),
)
frames = st.builds(
    framed,
    st.integers(0, 11),
    st.sampled_from([0, 1, 4, 5, 8, 0xC, 0x20, 0x25, 0xFF]),
    st.sampled_from([0, 1, 1, 3, 5, 2, 2**31 - 1]),
    payloads,
)


def respond(exchange, request):
    status = request.refusal.status if request.refusal is not None else 200
    exchange.respond(HttpResponse(status, b"ok", request_id="1"))


class Served:
    """A connection whose requests are all answered with their own target, and what it says."""

    def __init__(self, handle=None, **changes):
        self.host = make_host(
            handle or respond,
            slices=SimpleNamespace(run=lambda work: work(), is_over=False),
            find=Router().find,
            **changes,
        )
        self.loop = self.host.loop
        ours, self.client = socket.socketpair()
        ours.setblocking(False)
        self.client.setblocking(False)
        self.connection = Http2Connection(ours, None, self.host)
        self.host.connections.add(self.connection)

    def feed(self, data):
        """Have *data* read, unless the connection is over."""
        with contextlib.suppress(BrokenPipeError):
            self.client.send(data)
        self.loop.run(nowait=True)

    def end(self):
        """Close it, and return all that it has said."""
        self.connection.close()
        with self.client:
            said = b""
            while piece := self.client.recv(1 << 20):
                said += piece
        return said


def frames_of(said):
    """Return the frames of *said*; every one has to be well-formed."""
    found = []
    while said:
        frame, length = Frame.parse_frame_header(memoryview(said[:9]))
        frame.parse_body(memoryview(said[9 : 9 + length]))
        assert len(said) >= 9 + length
        found.append(frame)
        said = said[9 + length :]
    return found


@settings(
    max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sent=st.lists(frames, max_size=12), cuts=st.lists(st.integers(1, 60), max_size=8))
def test_whatever_frames_come_there_is_a_named_end_or_none(caplog, sent, cuts):
    caplog.clear()  # of the example before
    served = Served()
    data = SETTINGS + b"".join(sent)
    for cut in cuts:
        served.feed(data[:cut])
        data = data[cut:]
    served.feed(data)
    was_closed = served.connection.is_closed
    said = served.end()

    try:
        goodbyes = [frame for frame in frames_of(said) if isinstance(frame, GoAwayFrame)]
    except HyperframeError as error:
        raise AssertionError(f"we said what is no frame: {said!r}") from error
    assert caplog.records == []
    assert not was_closed
    assert len(goodbyes) <= 1
    assert len(served.host.connections) == 0
    pressure = served.host.pressure
    assert (pressure.arriving, pressure.bodies, pressure.shedder._paces) == (0, 0, {})


@settings(max_examples=100, deadline=None)
@given(sent=st.lists(frames, max_size=12))
def test_closed_connection_is_freed_at_once(sent):
    with no_garbage():
        served = Served()
        served.feed(SETTINGS + b"".join(sent))
        served.end()
        served.loop.run(nowait=True)  # what it has put off
        del served


def test_small_bodies_that_do_not_end_are_counted_refused_and_shed(monkeypatch):
    monkeypatch.setattr(measured, "resident", lambda: 250_000)
    pressure = measured.Pressure(1_000_000, 5.0)  # 90,000 are for requests that arrive in parts
    served = Served(pressure=pressure)
    encoder, decoder = Encoder(), Decoder()
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]
    served.feed(SETTINGS)
    for number in range(5):
        stream = 2 * number + 1
        served.feed(framed(1, 4, stream, encoder.encode(fields)))
        for _ in range(3):
            served.feed(framed(0, 0, stream, bytes(8000)))
        assert pressure.arriving >= min(24_000 * (number + 1), 70_000)
    held = pressure.arriving
    assert held <= 90_000
    served.feed(framed(0, 0, 1, bytes(100))[:-1])  # a frame that is not whole counts, too
    assert held < pressure.arriving < held + 200
    pressure.sweep(monotonic() + 1.5)
    pressure.sweep(monotonic() + 3.0)
    assert pressure.arriving < 45_000
    served.loop.run(nowait=True)
    said = [frame for frame in frames_of(served.end()) if isinstance(frame, HeadersFrame)]

    assert {"408", "429"} == {dict(decoder.decode(frame.data))[":status"] for frame in said}
    assert (pressure.arriving, pressure.bodies, pressure.shedder._paces) == (0, 0, {})


def add(found, frame):
    """Add *frame*; one of DATA to that before, if it goes on with it."""
    content, parts = frame.data[9:], frame.parts
    if frame[:2] == (0, 0) and found and found[-1][:3] == frame[:3]:
        before = found.pop()
        content, parts = before[3] + content, before[4] + parts
    found.append((*frame[:3], content, parts))


@given(st.lists(frames, max_size=8), st.lists(st.integers(1, 30)))
def test_frames_are_the_same_however_they_are_cut(sent, cuts):
    def parted(pieces):
        reader, found = FrameSplitter(10_000), []
        try:
            for piece in pieces:
                reader.add(piece)
                for frame in reader.take():
                    add(found, frame)
        except FrameError as error:
            return [*found, error.code]
        return [*found, reader.is_midway]

    data, pieces = b"".join(sent), []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]

    assert parted([*pieces, data]) == parted([b"".join(sent)])


def test_mistake_of_ours_while_writing_is_logged_and_closes_the_connection(caplog):
    served = Served(lambda exchange, _: exchange.outgoing.begin([(b":status", None)]))
    served.feed(SETTINGS + framed(1, 5, 1, GET))

    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["unexpected error while writing HTTP/2"]
    assert served.connection.is_closed
    served.client.close()


def decoded(decoder, block):
    """Return the fields of *block*, or that there are none."""
    try:
        return [tuple(field) for field in decoder.decode(block, raw=True)]
    except HPACKError:
        return "undecodable"


blocks = st.one_of(
    st.binary(max_size=30),
    st.lists(st.tuples(st.sampled_from(["a", "cookie", ":path"]), st.text(max_size=40))).map(
        lambda fields: Encoder().encode(fields)
    ),
)


@given(st.lists(blocks, max_size=5))
def test_header_blocks_mean_what_they_mean_to_hpack(sent):
    ours, theirs = FieldDecoder(1 << 16), Decoder(1 << 16)
    for block in sent:
        if block[:3].translate(None, bytes(range(0x20, 0x40))) != block[:3]:
            continue  # the table is resized: how often it may be they leave open
        expected = decoded(theirs, block)
        assert decoded(ours, block) == expected
        if expected == "undecodable":
            return


names = st.sampled_from([b":status", b"content-type", b"set-cookie", b"x-own", b"server-timing"])


@given(st.lists(st.tuples(names, st.binary(max_size=300)), max_size=9), st.integers(0, 70_000))
def test_fields_are_read_as_they_were_written(fields, size):
    fields.append((b"x-long", bytes(size)))
    encoder, decoder = FieldEncoder(), Decoder(max_header_list_size=1 << 20)

    for _ in range(2):
        assert decoder.decode(encoder.encode(fields), raw=True) == fields

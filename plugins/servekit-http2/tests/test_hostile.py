# SPDX-License-Identifier: Apache-2.0
"""What no good client of HTTP/2 sends: each ends as RFC 9113 says, and costs others nothing."""

from contextlib import ExitStack, suppress
from time import monotonic

import pytest
from httptools import HttpParserError, HttpRequestParser
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from servekit_http2.frames import Frame
from servekit_http2.protocol import ServerProtocol

from servekit.frontend.transport import METHODS
from tests.frontend.clients import next_batch, paused, wait_until_arrived
from tests.frontend.conftest import WAIT_S, FrontEndUnderTest

from .peer import (
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    NO_ERROR,
    PREFACE,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    Peer,
    flagged,
    get_fields,
    post_fields,
)


@pytest.fixture(scope="module")
def front_end(tmp_path_factory):
    """One that survives them all."""
    yield from survivor(tmp_path_factory)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """Another, whose timeouts are short."""
    yield from survivor(tmp_path_factory, header_timeout=0.5, body_timeout=0.5, send_timeout=0.5)


def survivor(tmp_path_factory, **settings):
    started = FrontEndUnderTest(tmp_path_factory.mktemp("run"), **settings)
    yield started
    with started.connect() as sock:  # it has survived them all
        peer = Peer(sock)
        peer.get(1, "/ping")
        assert peer.answer(1)[0] == 200
    assert started.stop() == 0


@pytest.fixture
def peer(front_end):
    with front_end.connect() as sock:
        yield Peer(sock)


def raw(kind, flags, stream_id, payload=b""):
    """Return the bytes of any frame."""
    return (
        len(payload).to_bytes(3, "big")
        + bytes((kind, flags))
        + stream_id.to_bytes(4, "big")
        + payload
    )


# ---------------------------------------------------------------- ends of a connection

WHOLE = ("END_HEADERS", "END_STREAM")

BAD_FRAMES = {
    "frame larger than was said": ([b"\0\x40\1\0\0\0\0\0\1"], FRAME_SIZE_ERROR),
    "PING of seven bytes": ([raw(6, 0, 0, b"1234567")], FRAME_SIZE_ERROR),
    "PING on a stream": ([raw(6, 0, 1, b"12345678")], PROTOCOL_ERROR),
    "SETTINGS on a stream": ([raw(4, 0, 1)], PROTOCOL_ERROR),
    "SETTINGS cut short": ([raw(4, 0, 0, b"\0\3\0")], FRAME_SIZE_ERROR),
    "answer to SETTINGS with content": ([raw(4, 1, 0, b"\0\3\0\0\0\1")], FRAME_SIZE_ERROR),
    "window too large by SETTINGS": ([raw(4, 0, 0, b"\0\4\x80\0\0\0")], FLOW_CONTROL_ERROR),
    "frame size too small by SETTINGS": ([raw(4, 0, 0, b"\0\5\0\0\0\1")], PROTOCOL_ERROR),
    "push that is neither on nor off": ([raw(4, 0, 0, b"\0\2\0\0\0\2")], PROTOCOL_ERROR),
    "DATA on stream 0": ([raw(0, 0, 0, b"1")], PROTOCOL_ERROR),
    "DATA on a stream that never was": ([raw(0, 0, 5, b"1")], PROTOCOL_ERROR),
    "HEADERS on stream 0": ([raw(1, 4, 0, b"\x82")], PROTOCOL_ERROR),
    "HEADERS on an even stream": ([raw(1, 5, 2, b"\x82\x84\x86")], PROTOCOL_ERROR),
    "padding longer than its frame": ([raw(0, 8, 1, b"\xff1")], PROTOCOL_ERROR),
    "CONTINUATION of nothing": ([raw(9, 4, 1, b"\x82")], PROTOCOL_ERROR),
    "PUSH_PROMISE by a client": ([raw(5, 4, 1, b"\0\0\0\2\x82")], PROTOCOL_ERROR),
    "PUSH_PROMISE that has only begun": ([raw(5, 0, 1, b"\0\0\0\2")], PROTOCOL_ERROR),
    "RST_STREAM of a stream that never was": ([raw(3, 0, 7, b"\0\0\0\x08")], PROTOCOL_ERROR),
    "RST_STREAM cut short": ([raw(3, 0, 1, b"\0\0")], FRAME_SIZE_ERROR),
    "window of a stream that never was": ([raw(8, 0, 7, b"\0\0\0\1")], PROTOCOL_ERROR),
    "window opened by nothing": ([raw(8, 0, 0, b"\0\0\0\0")], PROTOCOL_ERROR),
    "window past its end": ([raw(8, 0, 0, b"\x7f\xff\xff\xff")], FLOW_CONTROL_ERROR),
    "another frame in a header block": ([raw(1, 0, 1), raw(6, 0, 0, b"12345678")], PROTOCOL_ERROR),
    "header block of another stream": ([raw(1, 0, 1), raw(9, 4, 3, b"\x84")], PROTOCOL_ERROR),
    "index of no table": ([raw(1, 5, 1, b"\xff\xff\xff\x01")], COMPRESSION_ERROR),
    "Huffman code of nothing": ([raw(1, 5, 1, b"\0\x84\xff\xff\xff\xff\0")], COMPRESSION_ERROR),
    "table resized three times": ([raw(1, 5, 1, b"\x20\x20\x20\x82")], COMPRESSION_ERROR),
    "table larger than was allowed": ([raw(1, 5, 1, b"\x3f\xff\xff\x03\x82")], COMPRESSION_ERROR),
}  # fmt: skip


@pytest.mark.parametrize(
    ("frames", "code"), [pytest.param(*case, id=name) for name, case in BAD_FRAMES.items()]
)
def test_connection_ends(peer, frames, code):
    peer.sock.sendall(b"".join(frames))

    assert peer.goodbye_code() == code


def test_first_frame_has_to_be_settings(front_end):
    with front_end.connect() as sock:
        peer = Peer(sock)
        peer.wait_for(SettingsFrame)
        sock.close()
    with front_end.connect() as sock:
        sock.sendall(PREFACE + raw(6, 0, 0, b"12345678"))
        reader = Peer.__new__(Peer)
        reader.sock, reader.unread = sock, b""

        assert reader.goodbye_code() == PROTOCOL_ERROR


def test_stream_may_not_be_asked_on_twice(peer):
    peer.get(1, "/ping")
    peer.answer(1)
    peer.get(1, "/ping")

    assert peer.goodbye_code() == STREAM_CLOSED


def test_streams_are_numbered_upwards(peer):
    peer.get(5, "/ping")
    peer.answer(5)
    peer.get(3, "/ping")

    assert peer.goodbye_code() == PROTOCOL_ERROR


# ---------------------------------------------------------------- ends of a stream

BAD_FIELDS = {
    "no method": get_fields("/ping")[1:],
    "no path": [each for each in get_fields("/ping") if each[0] != ":path"],
    "empty path": get_fields(""),
    "no scheme": [each for each in get_fields("/ping") if each[0] != ":scheme"],
    "method twice": [(":method", "GET"), *get_fields("/ping")],
    "pseudo-header of answers": get_fields("/ping", (":status", "200")),
    "interim answer": [(":status", "100")],
    "interim answer and a request": [*get_fields("/ping"), (":status", "100")],
    "unknown pseudo-header": get_fields("/ping", (":x", "1")),
    "pseudo-header behind a field": [("a", "b"), *get_fields("/ping")],
    "upper case": get_fields("/ping", ("X-Upper", "1")),
    "name that is none": get_fields("/ping", ("a b", "1")),
    "empty name": get_fields("/ping", ("", "1")),
    "connection": get_fields("/ping", ("connection", "close")),
    "keep-alive": get_fields("/ping", ("keep-alive", "1")),
    "proxy-connection": get_fields("/ping", ("proxy-connection", "1")),
    "transfer-encoding": get_fields("/ping", ("transfer-encoding", "chunked")),
    "upgrade": get_fields("/ping", ("upgrade", "h2c")),
    "te of more than trailers": get_fields("/ping", ("te", "gzip")),
    "line end in a value": get_fields("/ping", ("a", "b\r\nc: d")),
    "NUL in a value": get_fields("/ping", ("a", "b\0")),
    "space before a value": get_fields("/ping", ("a", " b")),
    "line end in the path": get_fields("/ping\r\nHost: b"),
    "control character in a value": get_fields("/ping", ("a", "b\x01")),
    "DEL in a value": get_fields("/ping", ("a", "b\x7f")),
    "method that is no token": get_fields("/ping", method="G(T"),
    "host and authority differ": get_fields("/ping", ("host", "other")),
    "length of a body that does not come": get_fields("/ping", ("content-length", "1")),
    **{
        f"length {length!r}": post_fields(("content-length", length))
        for length in ("x", "", "+1", "-1", "1, 1", "1_0", "\u0661", "9" * 40)
    },
    "two lengths": post_fields(("content-length", "1"), ("content-length", "2")),
}


@pytest.mark.parametrize(
    "fields", [pytest.param(fields, id=name) for name, fields in BAD_FIELDS.items()]
)
def test_malformed_request_ends_its_stream_alone(peer, fields):
    peer.send(peer.headers(1, fields, *WHOLE))
    peer.get(3, "/ping")

    assert peer.reset_code(1) == PROTOCOL_ERROR
    assert peer.answer(3)[0] == 200


def test_trailers_that_do_not_end_their_stream_end_it_alone(peer):
    peer.send(peer.headers(1, post_fields()), peer.headers(1, [("x-end", "1")]))
    peer.get(3, "/ping")

    assert peer.reset_code(1) == PROTOCOL_ERROR
    assert peer.answer(3)[0] == 200


def test_trailers_that_do_not_end_a_stream_that_is_over_end_nothing(peer):
    peer.send(*[peer.headers(1, post_fields())] * 4)
    peer.get(3, "/ping")

    assert peer.reset_code(1) == PROTOCOL_ERROR
    assert peer.answer(3)[0] == 200


def test_a_window_that_is_opened_by_nothing_ends_its_stream_alone(peer):
    peer.send(peer.headers(1, post_fields()))
    peer.sock.sendall(raw(8, 0, 1, bytes(4)))
    peer.get(3, "/ping")

    assert peer.reset_code(1) == PROTOCOL_ERROR
    assert peer.answer(3)[0] == 200


def test_priorities_are_ignored(peer):
    block = peer.encoder.encode(get_fields("/ping"))
    peer.sock.sendall(raw(1, 0x25, 1, b"\0\0\0\1\0" + block) + raw(2, 0, 1, b"\0\0\0\1\0"))

    assert peer.answer(1)[0] == 200


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(raw(8, 0, 0, b"\x80\0\0\1"), id="reserved bit of a window"),
        pytest.param(raw(8, 0, 0x80000000, b"\0\0\0\1"), id="reserved bit of a stream"),
        pytest.param(raw(0xA, 0, 0, b"\xff"), id="malformed ALTSVC"),
        pytest.param(raw(0x10, 0, 0, b"\0"), id="malformed PRIORITY_UPDATE"),
        pytest.param(raw(0xFF, 0xFF, 7, b"a"), id="unknown frame"),
    ],
)
def test_what_is_to_be_ignored_is_ignored(peer, frame):
    peer.sock.sendall(frame)
    peer.get(1, "/ping")

    assert peer.answer(1)[0] == 200


@pytest.mark.parametrize(
    ("authority", "host"),
    [("Test", "tEST"), ("test", "test:80"), ("test:80", "TEST"), ("test:", "test")],
)
def test_host_may_say_in_other_words_what_authority_says(peer, authority, host):
    fields = [*get_fields("/ping")[:-1], (":authority", authority), ("host", host)]
    peer.send(peer.headers(1, fields, *WHOLE))

    assert peer.answer(1)[0] == 200


@pytest.mark.parametrize("path", ["/ping?a b", "/ping?a\tb", "/pi ng", "http://a/?b c"])
def test_target_that_no_request_line_can_have_is_refused(peer, path):
    peer.send(peer.headers(1, get_fields(path), *WHOLE))
    peer.get(3, "/ping?a=b")

    assert [answer[0] for answer in peer.answers(1, 3)] == [400, 200]


@pytest.mark.parametrize(
    ("declared", "sent"),
    [
        pytest.param("2", [b"123"], id="longer than was said"),
        pytest.param("4", [b"12", b"3"], id="shorter than was said"),
        pytest.param("70000", [b"12"], id="shorter, by shared memory"),
        pytest.param("70000", [bytes(16_000)] * 4 + [bytes(1535)], id="as long as the window"),
    ],
)
def test_body_is_as_long_as_was_said(peer, declared, sent):
    peer.send(peer.headers(1, post_fields(("content-length", declared))))
    *before, last = sent
    peer.send(*(peer.data(1, each) for each in before), peer.data(1, last, "END_STREAM"))
    peer.get(3, "/ping")

    assert peer.reset_code(1) == PROTOCOL_ERROR
    assert peer.answer(3)[0] == 200


def test_length_holds_with_trailers_too(peer):
    peer.send(
        peer.headers(1, post_fields(("content-length", "9"))),
        peer.data(1, b"12"),
        peer.headers(1, [("x-end", "1")], *WHOLE),
    )

    assert peer.reset_code(1) == PROTOCOL_ERROR


BAD_TRAILERS = {
    "pseudo-header": (":path", "/"),
    "pseudo-header of answers": (":status", "200"),
    "upper case": ("X-End", "1"),
    "name that is none": ("a b", "1"),
    "empty name": ("", "1"),
    "connection": ("connection", "close"),
    "transfer-encoding": ("transfer-encoding", "chunked"),
    "length": ("content-length", "2"),
    "NUL in a value": ("a", "b\0"),
    "line end in a value": ("a", "b\r\nc: d"),
    "space behind a value": ("a", "b "),
}


@pytest.mark.parametrize("field", BAD_TRAILERS.values(), ids=BAD_TRAILERS)
def test_malformed_trailers_end_their_stream_alone(peer, field):
    peer.send(peer.headers(1, post_fields()), peer.data(1, b"hi"))
    peer.send(peer.headers(1, [("x-end", "1"), field], *WHOLE))
    peer.get(3, "/ping")

    assert peer.reset_code(1) == PROTOCOL_ERROR
    assert peer.answer(3)[0] == 200


def test_trailers_are_taken(peer):
    peer.send(peer.headers(1, post_fields()), peer.data(1, b"hi"))
    peer.send(peer.headers(1, [("x-end", "1"), ("server-timing", "a")], *WHOLE))

    assert peer.answer(1)[::2] == (200, b"hi")


def test_methods_are_those_that_llhttp_knows():
    class Read:
        method = b""

        def on_message_complete(self):
            self.method = parser.get_method()

    known = set()
    for method in {*METHODS, b"SOURCE", b"PRI", b"DESCRIBE", b"BREW", b"get"} - {b"CONNECT"}:
        read = Read()
        parser = HttpRequestParser(read)
        with suppress(HttpParserError):
            parser.feed_data(method + b" / HTTP/1.1\r\nHost: a\r\n\r\n")
        known |= {read.method} - {b""}

    assert known - {b"SOURCE"} == METHODS - {b"CONNECT"}


def test_window_of_a_stream_past_its_end_ends_the_stream(front_end, peer):
    peer.send(peer.headers(1, post_fields()))
    peer.make_room(2**31 - 1, 1)
    peer.get(3, "/ping")

    assert peer.reset_code(1) == FLOW_CONTROL_ERROR
    assert peer.answer(3)[0] == 200


REFUSED = {
    "CONNECT": ([(":method", "CONNECT"), (":authority", "a:1")], 405),
    "no authority": ([each for each in get_fields("/ping") if each[0] != ":authority"], 400),
    "authority that is none": ([*get_fields("/ping")[:-1], (":authority", "a@b")], 400),
    "path that is none": (get_fields("ping"), 400),
    "control character in the path": (get_fields("/%01"), 400),
    "absolute path": (get_fields("http://a/ping"), 400),
    "unknown scheme": (
        [*get_fields("/ping")[:1], (":scheme", "ftp"), *get_fields("/ping")[2:]],
        400,
    ),
    "lower-case GET": (get_fields("/ping", method="get"), 501),
    "lower-case POST": (get_fields("/echo/predict", method="post"), 501),
    "unknown method": (get_fields("/ping", method="BREW"), 501),
    "method of another protocol": (get_fields("/ping", method="SOURCE"), 501),
    "PRI": (get_fields("/ping", method="PRI"), 501),
    "long path": (get_fields("/" + "a" * 8200), 414),
    "large fields": (get_fields("/ping", *((f"a{n}", "b" * 4000) for n in range(9))), 431),
    "many fields": (get_fields("/ping", *((f"a{n}", "b") for n in range(101))), 431),
    "content type twice": (post_fields(("content-type", "a/b"), ("content-type", "c/d")), 400),
    "expectation": (post_fields(("expect", "wonders")), 417),
}


@pytest.mark.parametrize(
    ("fields", "status"), [pytest.param(*case, id=name) for name, case in REFUSED.items()]
)
def test_what_is_refused_is_told_so(peer, fields, status):
    frame = peer.headers(1, fields, *WHOLE)
    block, frame.data = frame.data, frame.data[:16_000]
    rest = [block[n : n + 16_000] for n in range(16_000, len(block), 16_000)]
    if rest:
        frame.flags.discard("END_HEADERS")
    pieces = [ContinuationFrame(1, each) for each in rest]
    peer.send(frame, *pieces[:-1], *(flagged(each, "END_HEADERS") for each in pieces[-1:]))

    answer = peer.answer(1)

    assert answer[0] == status
    assert answer[1]["content-type"] == "application/problem+json"


# ---------------------------------------------------------------- floods


def flood(peer, make, count):
    """Send *count* frames of *make*, as far as the server takes them."""
    try:
        for start in range(0, count, 500):
            peer.send(*(make(n) for n in range(start, start + 500)))
    except (BrokenPipeError, ConnectionResetError):
        pass


def priority(_):
    return PriorityFrame(1, depends_on=0, stream_weight=1)


def asked_and_dropped(peer):
    fields = get_fields("/ping")

    def make(number):
        stream_id = number // 2 * 2 + 1
        if number % 2:
            return RstStreamFrame(stream_id, error_code=8)
        return peer.headers(stream_id, fields)

    return make


FLOODS = {
    "PING": lambda _: PingFrame(0, b"12345678"),
    "SETTINGS": lambda _: SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1}),
    "PRIORITY": priority,
    "WINDOW_UPDATE": lambda _: WindowUpdateFrame(0, window_increment=1),
    "DATA without data": lambda n: DataFrame(1, b""),
    "DATA that is padding": lambda n: flagged(DataFrame(1, b"", pad_length=9), "PADDED"),
    "SETTINGS that nobody knows": lambda n: Unknown(4, 0, 0, b"\1\0\0\0\0\0" * 200),
    "frames of no known type": lambda _: Unknown(0xEE, 0, 0, b"x"),
}


class Unknown:
    def __init__(self, *frame):
        self.frame = frame

    def serialize(self):
        return raw(*self.frame)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in FLOODS.items()])
def test_flood_of_frames_without_a_request_ends_the_connection(peer, make):
    peer.send(peer.headers(1, post_fields()))
    flood(peer, make, 6000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_flood_of_data_in_single_bytes_ends_the_connection(front_end, peer):
    peer.send(peer.headers(1, post_fields()))
    flood(peer, lambda _: DataFrame(1, b"x"), 20_000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_body_in_small_pieces_is_taken(peer):
    peer.send(peer.headers(1, post_fields()))
    flood(peer, lambda _: DataFrame(1, b"0123456789abcdef"), 4000)
    peer.send(peer.data(1, b"", "END_STREAM"))

    assert peer.answer(1)[2] == b"0123456789abcdef" * 4000


def test_flood_on_a_stream_that_is_over_ends_the_connection(peer):
    peer.send(peer.headers(1, post_fields(("content-length", "1"))), peer.data(1, b"123"))
    assert peer.reset_code(1) == PROTOCOL_ERROR
    flood(peer, lambda _: DataFrame(1, bytes(100)), 3000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_flood_of_trailers_on_a_stream_that_is_over_ends_the_connection(peer):
    peer.send(peer.headers(1, post_fields(("content-length", "1"))), peer.data(1, b"123"))
    assert peer.reset_code(1) == PROTOCOL_ERROR
    flood(peer, lambda _: peer.headers(1, [("a", "b")], *WHOLE), 1000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_flood_of_requests_with_too_many_fields_ends_the_connection(peer):
    block = peer.encoder.encode(get_fields("/ping")) + b"\x90" * 300
    flood(peer, lambda n: flagged(HeadersFrame(2 * n + 1, block), *WHOLE), 500)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_thousands_of_fields_are_not_decoded(peer):
    block = peer.encoder.encode(get_fields("/ping")) + b"\x90" * 2700
    peer.send(flagged(HeadersFrame(1, block), *WHOLE))

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_settings_that_nobody_knows_are_not_kept():
    protocol = ServerProtocol(1000)
    before = len(protocol.remote_settings)
    payload = b"".join(n.to_bytes(2, "big") + bytes(4) for n in range(9, 2000))
    protocol.take(Frame(4, 0, 0, raw(4, 0, 0, payload)))

    assert len(protocol.remote_settings) == before


def test_rapid_reset_ends_the_connection(front_end, peer):
    flood(peer, asked_and_dropped(peer), 2000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_resets_that_we_are_made_to_send_count_too(peer):
    def make(number):
        return peer.headers(2 * number + 1, get_fields("/ping", ("te", "x")), *WHOLE)

    flood(peer, make, 1000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_header_block_without_an_end_is_cut_off(peer):
    peer.send(HeadersFrame(1, peer.encoder.encode(get_fields("/ping"))))
    flood(peer, lambda _: ContinuationFrame(1, bytes(1000)), 1000)

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_header_block_of_empty_pieces_is_cut_off(peer):
    peer.send(HeadersFrame(1, peer.encoder.encode(get_fields("/ping"))))
    flood(peer, lambda _: ContinuationFrame(1, b""), 1000)

    assert peer.goodbye_code() in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)


def test_bomb_of_hpack_is_not_unpacked(peer):
    bomb = peer.encoder.encode([*get_fields("/ping"), ("a", "b" * 3900)]) + b"\xbe" * 8000
    peer.send(flagged(HeadersFrame(1, bomb), *WHOLE))

    assert peer.goodbye_code() == ENHANCE_YOUR_CALM


def test_streams_beyond_what_was_said_are_refused(front_end, peer):
    assert peer.wait_for(SettingsFrame).settings[SettingsFrame.MAX_CONCURRENT_STREAMS] == 100
    for number in range(101):
        peer.send(peer.headers(2 * number + 1, post_fields()))

    assert peer.reset_code(201) == REFUSED_STREAM
    peer.send(peer.data(1, b"1", "END_STREAM"))
    assert peer.answer(1)[::2] == (200, b"1")


# ---------------------------------------------------------------- slowness


@pytest.fixture
def at_once(hasty):
    """Return a peer with what it sends when it connects: even a busy machine is in time."""
    with ExitStack() as stack:

        def connect(settings=None, send=lambda _peer: None):
            with paused(hasty):
                sock = stack.enter_context(hasty.connect())
                peer = Peer(sock, settings)
                send(peer)
                wait_until_arrived(sock)
            return peer

        yield connect


def test_header_block_has_to_be_whole_in_time(at_once):
    fields = get_fields("/ping")
    peer = at_once(send=lambda peer: peer.send(HeadersFrame(1, peer.encoder.encode(fields))))

    assert peer.goodbye_code() == PROTOCOL_ERROR


def test_body_has_to_come_in_time(at_once):
    fields = post_fields(("content-length", "9"))
    peer = at_once(send=lambda peer: peer.send(peer.headers(1, fields)))

    assert peer.answer(1)[0] == 408


def test_client_without_room_is_not_waited_for(hasty, at_once):
    no_room = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
    peer = at_once(no_room, send=lambda peer: peer.post(1, b"1"))
    next_batch(hasty.worker)

    assert peer.reset_code(1) == 0x8
    peer.send(peer.headers(3, get_fields("/ping", method="HEAD"), *WHOLE))
    assert peer.wait_for(HeadersFrame, 3).fields[":status"] == "200"


def test_client_that_reads_nothing_is_dropped(hasty, at_once):
    usual = hasty.worker.answer
    hasty.worker.answer = lambda _: ("", "text/plain", bytes(8_000_000))

    def send(peer):
        peer.make_room(2**30, 0)
        peer.post(1, b"1")

    try:
        peer = at_once({SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1}, send)
        wait_until_dropped(peer.sock)
    finally:
        hasty.worker.answer = usual


def wait_until_dropped(sock):
    """Wait until writing fails, though what has come is not read."""
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        try:
            sock.sendall(raw(6, 1, 0, b"12345678"))
        except TimeoutError:
            continue
        except OSError:
            return
        sock.settimeout(0.1)
    raise AssertionError("the connection is still there")


def test_refused_body_is_not_read_for_ever(front_end, peer):
    length = str(front_end.settings.max_body + 1)
    peer.send(peer.headers(1, post_fields(("content-length", length))))
    assert peer.answer(1)[0] == 413

    assert peer.reset_code(1) == NO_ERROR

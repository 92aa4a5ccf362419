# SPDX-License-Identifier: Apache-2.0
"""What a client may send, and what it gets: HTTP/1.1 seen from a raw socket."""

import re
import socket
from contextlib import ExitStack

import pytest

from servekit.frontend.server.acceptor import RESERVE
from servekit.ipc.table import Interface

from .clients import paused, wait_until_arrived
from .conftest import post, receive
from .framing import GET, refusal_of

HEAD = b"POST /echo/predict HTTP/1.1\r\nHost: test\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

ANSWERED = [
    pytest.param(HEAD + b"Content-Length: 2\r\n\r\nhi", b"hi", id="declared length"),
    pytest.param(CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", b"hi", id="chunked"),
    pytest.param(CHUNKED + b"2;a=b\r\nhi\r\n0\r\n\r\n", b"hi", id="chunk extension is ignored"),
    pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\nX: y\r\n\r\n", b"hi", id="trailer is ignored"),
    pytest.param(b"\r\n" + HEAD + b"Content-Length: 1\r\n\r\nh", b"h", id="leading empty line"),
    pytest.param(HEAD + b"Content-Length: 0\r\n\r\n", b"", id="empty body reaches the worker"),
    pytest.param(
        b"POST /echo/predict HTTP/1.1\r\nHost:\ttest \t\r\nContent-Length: 2 \r\n"
        b"Content-Encoding: identity \r\nX-Request-Timeout-Ms: 90000 \r\n\r\nhi", b"hi",
        id="white space around values is none of theirs",
    ),
    pytest.param(
        b"POST /echo/predict?a=b HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\nh", b"h",
        id="query is ignored",
    ),
    pytest.param(
        b"POST /%65cho/predict HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\nh", b"h",
        id="percent-encoded path",
    ),
    pytest.param(
        b"POST http://test/echo/predict HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\nh", b"h",
        id="absolute form",
    ),
    pytest.param(
        b"POST /echo/predict HTTP/1.0\r\nContent-Length: 1\r\n\r\nh", b"h",
        id="HTTP/1.0 needs no Host",
    ),
]  # fmt: skip


WISHES = {
    "upgrade": "Connection: Upgrade\r\nUpgrade: h2c",
    "what Java sends": (
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAI"
    ),
}


def test_refusal_after_a_wish_for_another_protocol_is_answered(shared):
    with shared.connect() as sock:
        sock.sendall(post(b"hi", "Connection: Upgrade", "Upgrade: h2c") + HEAD + b"Host: b\r\n\r\n")
        text = b""
        while piece := sock.recv(65536):
            text += piece

        assert re.findall(rb"HTTP/1.1 (\d+)", text) == [b"200", b"400"]


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("times", [1, 3])
def test_wish_for_another_protocol_is_not_granted_and_the_request_answered(shared, wish, times):
    with shared.connect() as sock:
        for _ in range(times):
            sock.sendall(post(b"hi", *wish.split("\r\n")))
            assert receive(sock)[::2] == (200, b"hi")
        sock.sendall(CHUNKED.replace(b"Host", wish.encode() + b"\r\nHost") + b"1\r\nh\r\n0\r\n\r\n")

        assert receive(sock)[::2] == (200, b"h")


def test_pipeline_of_wishes_for_another_protocol_ends_in_a_refusal(shared):
    wish = post(b"hi", "Connection: Upgrade", "Upgrade: h2c")
    with shared.connect() as sock:
        sock.sendall(wish * 500)
        text = b""
        while piece := sock.recv(65536):
            text += piece

        assert text.startswith(b"HTTP/1.1 200")


def test_trailer_changes_nothing(shared):
    trailer = b"X-Request-Id: trailer\r\nX-Request-Timeout-Ms: 0\r\nContent-Type: a/b\r\n"
    with shared.connect() as sock:
        sock.sendall(CHUNKED + b"2\r\nhi\r\n0\r\n" + trailer + b"\r\n")
        status, headers, _ = receive(sock)

        assert (status, headers["x-request-id"] != "trailer") == (200, True)


def test_body_of_single_byte_chunks_is_taken_whole(shared):
    body = bytes(range(256)) * 100
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    with shared.connect() as sock:
        sock.sendall(CHUNKED + chunks + b"0\r\n\r\n")

        assert receive(sock)[::2] == (200, body)


def test_clients_over_the_limit_of_connections_are_answered_once_and_further_ones_told(start):
    front_end = start(max_connections=1)
    with ExitStack() as stack:
        socks = [stack.enter_context(front_end.connect()) for _ in range(1 + RESERVE)]
        socks[-1].sendall(post(b"1"))
        status, headers, _ = receive(socks[-1])
        assert (status, headers["connection"]) == (200, "close")
        others = [stack.enter_context(front_end.connect()) for _ in range(2)]

        assert receive(others[-1])[0] == 503


@pytest.mark.parametrize(("sent", "body"), ANSWERED)
def test_well_formed_request_is_answered(shared, sent, body):
    with shared.connect() as sock:
        sock.sendall(sent)

        assert receive(sock)[::2] == (200, body)


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(post(b"1") + b"BAD\r\n\r\n" + post(b"2"), [200, 400], id="behind one"),
        pytest.param(post(b"1") * 3 + b"BAD\r\n\r\n", [200, 200, 200, 400], id="behind three"),
        pytest.param(GET + post(b"1") + b"GET /", [200, 200, 400], id="cut by the end"),
        pytest.param(post(b"1", "Connection: close") + post(b"2"), [200], id="after the last"),
    ],
)
def test_each_request_of_a_pipeline_is_answered_once_and_in_order(shared, sent, statuses):
    with shared.connect() as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        text = b"".join(iter(lambda: sock.recv(65_536), b""))

        assert [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+)", text)] == statuses


def test_pipelined_requests_are_answered_in_order(shared):
    with shared.connect() as sock:
        sock.sendall(b"".join(post(b"%d" % i) for i in range(50)))
        text = b""
        while text.count(b"HTTP/1.1 200") < 50 or not text.endswith(b"\r\n\r\n49"):
            text += sock.recv(65536)

        bodies = [part.partition(b"\r\n\r\n")[2] for part in text.split(b"HTTP/1.1 200 OK")[1:]]
        assert bodies == [b"%d" % i for i in range(50)]


def test_request_may_arrive_byte_by_byte(shared):
    with shared.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(b"slow"):
            sock.sendall(bytes((byte,)))

        assert receive(sock)[::2] == (200, b"slow")


def test_large_body_comes_back_byte_for_byte(shared):
    body = bytes(range(256)) * 4 * 1024 * 9
    with shared.connect() as sock:
        sock.sendall(post(body))

        assert receive(sock)[::2] == (200, body)


def test_expect_continue_is_answered_before_the_body(shared):
    with shared.connect() as sock:
        sock.sendall(HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert sock.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hi")

        assert receive(sock)[::2] == (200, b"hi")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        pytest.param(b"POST /nope HTTP/1.1", 404, id="no such path"),
        pytest.param(b"PUT /echo/predict HTTP/1.1", 405, id="another method"),
        pytest.param(b"POST /ping HTTP/1.1", 405, id="a path that only reads"),
        pytest.param(
            b"POST /echo/predict HTTP/1.1\r\nX-Request-Timeout-Ms: soon", 400, id="bad timeout"
        ),
    ],
)
@pytest.mark.parametrize("body", [b"Content-Length: 2", b"Transfer-Encoding: chunked"])
def test_body_that_nobody_will_read_is_not_asked_for(shared, line, status, body):
    head = line + b"\r\nHost: a\r\nExpect: 100-continue\r\n" + body + b"\r\n\r\n"

    assert refusal_of(shared, head) == status


MEDIA_TYPES = {
    b"text/html": 415,
    b"": 415,
    b"application/x-www-form-urlencoded": 415,
    b"application/json; charset=latin-1": 415,
    b"application/json;Charset=UTF8": 100,
    b"application/json; charset=utf-8": 100,
    b'application/json; a="; charset=latin-1"': 100,
    b"IMAGE/png": 100,
    b"a/b+json": 100,
}


def answers_to_expectations(front_end, media_types):
    """Return the first status for a client that waits for a 100, for each of *media_types*."""
    head = HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\nContent-Type: "
    answers = {}
    for media_type in media_types:
        with front_end.connect() as sock:
            sock.sendall(head + media_type + b"\r\n\r\n")
            answers[media_type] = int(sock.recv(64)[9:12])
    return answers


def test_body_of_a_type_that_is_not_taken_is_not_asked_for(start):
    front_end = start()
    front_end.publish(interface=Interface(consumes=["application/json", "image/*"]))

    assert answers_to_expectations(front_end, MEDIA_TYPES) == MEDIA_TYPES


@pytest.mark.parametrize(
    ("consumes", "manifest"),
    [
        pytest.param(["application/json"], {"media_type": "application/json"}, id="a model's own"),
        pytest.param(["application/json", "*/*"], {}, id="files of any type"),
    ],
)
def test_body_without_a_type_is_asked_for_where_there_is_a_type_for_it(start, consumes, manifest):
    front_end = start()
    front_end.publish(interface=Interface(consumes=consumes), manifest=manifest)
    expected = {b"": 100, b"application/x-www-form-urlencoded": 100}

    assert answers_to_expectations(front_end, expected) == expected


def test_expect_continue_over_the_limit_gets_no_continue(shared):
    with shared.connect() as sock:
        sock.sendall(HEAD + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")

        assert receive(sock)[0] == 413


def test_client_of_a_refused_upload_can_read_the_refusal(shared):
    with shared.connect() as sock:
        sock.sendall(HEAD + b"Content-Length: 20000000\r\n\r\n" + b"x" * 30_000)

        assert receive(sock)[0] == 413


def test_chunked_body_over_the_limit_is_refused_not_cut(start):
    front_end = start(max_body=1000)
    with front_end.connect() as sock:
        sock.sendall(CHUNKED + b"200\r\n" + b"x" * 512 + b"\r\n200\r\n" + b"x" * 512)

        assert receive(sock)[0] == 413


def test_body_that_ends_early_is_refused_and_not_predicted(shared):
    with shared.connect() as sock:
        sock.sendall(HEAD + b"Content-Length: 10\r\n\r\nabc")
        sock.shutdown(socket.SHUT_WR)

        assert receive(sock)[0] == 400
    assert shared.worker.held is None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"POST /echo", id="half a request line"),
        pytest.param(HEAD + b"X: y\r\n", id="half a header section"),
        pytest.param(HEAD + b"Content-Length: 10\r\n\r\nabc", id="half a body"),
    ],
)
def test_slow_request_gets_408(start, sent):
    front_end = start(header_timeout=0.3, body_timeout=0.3)
    with ExitStack() as stack:
        with paused(front_end):  # else a slow machine may send nothing in time
            sock = stack.enter_context(front_end.connect())
            sock.sendall(sent)
            wait_until_arrived(sock)

        assert receive(sock)[0] == 408


def test_idle_connection_is_closed_after_keep_alive(start):
    front_end = start(keep_alive=0.2)
    with front_end.connect() as sock:
        sock.sendall(post(b"1"))
        receive(sock)

        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    ("version", "header", "connection"),
    [
        pytest.param("1.1", "X: y", None, id="1.1 stays open"),
        pytest.param("1.1", "Connection: close", "close", id="1.1 closes when asked"),
        pytest.param("1.0", "X: y", "close", id="1.0 closes"),
        pytest.param("1.0", "Connection: keep-alive", "keep-alive", id="1.0 stays when asked"),
    ],
)
def test_connection_header(shared, version, header, connection):
    with shared.connect() as sock:
        sock.sendall(post(b"1", header).replace(b"HTTP/1.1", b"HTTP/" + version.encode()))

        assert receive(sock)[1].get("connection") == connection


def test_head_has_the_length_of_get_and_no_body(shared):
    with shared.connect() as sock:
        sock.sendall(b"HEAD /ping/live HTTP/1.1\r\nHost: a\r\n\r\n")
        length = sock.recv(65536)
        sock.sendall(b"GET /ping/live HTTP/1.1\r\nHost: a\r\n\r\n")
        status, headers, _ = receive(sock)

        assert f"Content-Length: {headers['content-length']}".encode() in length
        assert (status, length[-4:]) == (200, b"\r\n\r\n")


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-123", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("é", False)],
)
def test_request_id_is_kept_when_it_is_safe(shared, given, kept):
    with shared.connect() as sock:
        sock.sendall(post(b"1", f"X-Request-Id: {given}"))

        assert (receive(sock)[1]["x-request-id"] == given) is kept


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"Host: a b\r\n\r\n", id="malformed field"),
        pytest.param(b"Host: a\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", id="415"),
        pytest.param(b"Host: a\r\nContent-Length: 99999999\r\n\r\n", id="413"),
    ],
)
def test_head_that_is_refused_gets_no_body(shared, rest):
    with shared.connect() as sock:
        sock.sendall(b"HEAD /ping HTTP/1.1\r\n" + rest)
        with sock.makefile("rb") as stream:
            answer = stream.read()

        assert answer.count(b"HTTP/1.1 4") == 1
        assert answer.endswith(b"\r\n\r\n")

# SPDX-License-Identifier: Apache-2.0
"""Request lines (RFC 9112 2.2, 3; RFC 9110 9): what is taken, what is refused."""

import pytest

from servekit.errors import ServekitError

from .conftest import receive
from .framing import GET, HEAD, refusal_of, status_of
from .stand_ins import make_parser

REST = b"\r\nHost: test\r\n\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"

TAKEN = {
    "an empty line before it": (b"\r\n" + GET, 200),
    "two empty lines before it": (b"\r\n\r\n" + GET, 200),
    "absolute form": (b"GET http://test/ping/live HTTP/1.1" + REST, 200),
    "absolute form without a path": (b"GET http://test HTTP/1.1" + REST, 200),
    "query with what browsers leave in it": (b"GET /ping/live?a[]={1}|2 HTTP/1.1" + REST, 200),
    "unknown path": (b"GET /nope HTTP/1.1" + REST, 404),
    "a slash at the end": (b"GET /ping/live/ HTTP/1.1" + REST, 404),
    "encoded slash is no separator": (b"POST /echo%2Fpredict HTTP/1.1" + REST, 404),
    "encoded slash in a name": (b"POST /a%2Fb/predict HTTP/1.1" + REST, 404),
    "encoded slashes and dots": (b"POST /..%2f..%2fetc/predict HTTP/1.1" + REST, 404),
    "encoded dots": (b"POST /%2e%2e/predict HTTP/1.1" + REST, 404),
    "dot segments are not resolved": (b"POST /x/../echo/predict HTTP/1.1" + REST, 404),
    "single dot segment": (b"POST /./echo/predict HTTP/1.1" + REST, 404),
    "two slashes before": (b"POST //echo/predict HTTP/1.1" + REST, 404),
    "two slashes within": (b"POST /echo//predict HTTP/1.1" + REST, 404),
    "GET of a prediction": (b"GET /echo/predict HTTP/1.1" + REST, 405),
    "PROPFIND": (b"PROPFIND /ping HTTP/1.1" + REST, 405),
    "TRACE": (b"TRACE /ping HTTP/1.1" + REST, 405),
    "HTTP/1.2": (b"GET /ping/live HTTP/1.2" + REST, 200),
    "HTTP/1.9": (b"GET /ping/live HTTP/1.9" + REST, 200),
    "HTTP/1.2 with chunks": (HEAD.replace(b"1.1", b"1.2") + CHUNKS, 200),
}

REFUSED = {
    "two spaces after the method": (b"GET  /ping HTTP/1.1" + REST, 400),
    "two spaces before the version": (b"GET /ping  HTTP/1.1" + REST, 400),
    "space at the end": (b"GET /ping HTTP/1.1 " + REST, 400),
    "space at the start": (b" GET /ping HTTP/1.1" + REST, 400),
    "tabs": (b"GET\t/ping\tHTTP/1.1" + REST, 400),
    "space in the target": (b"GET /a b HTTP/1.1" + REST, 400),
    "bare LF at its end": (b"GET /ping HTTP/1.1\nHost: test\r\n\r\n", 400),
    "bare CR at its end": (b"GET /ping HTTP/1.1\rHost: test\r\n\r\n", 400),
    "two CR at its end": (b"GET /ping HTTP/1.1\r\r\nHost: test\r\n\r\n", 400),
    "bare LF before it": (b"\n" + GET, 400),
    "bare CR before it": (b"\r" + GET, 400),
    "no version": (b"GET /ping\r\n\r\n", 400),
    "HTTP/0.9 by name": (b"GET /ping HTTP/0.9" + REST, 400),
    "RTSP": (b"GET /ping RTSP/1.1" + REST, 400),
    "RTSP without a method of its own": (b"POST /echo/predict RTSP/1.0" + REST, 400),
    "RTSP with a method of its own": (b"DESCRIBE /ping RTSP/1.0" + REST, 400),
    "ICE": (b"SOURCE /ping ICE/1.0" + REST, 400),
    "HTTP/2.0": (b"GET /ping HTTP/2.0" + REST, 505),
    "HTTP/3.0": (b"GET /ping HTTP/3.0" + REST, 505),
    "two digits": (b"GET /ping HTTP/1.10" + REST, 400),
    "leading zero": (b"GET /ping HTTP/01.1" + REST, 400),
    "no minor version": (b"GET /ping HTTP/1" + REST, 400),
    "lower-case version": (b"GET /ping http/1.1" + REST, 400),
    "another protocol": (b"GET /ping HTTPS/1.1" + REST, 400),
    "half a preface of HTTP/2": (b"PRI * HTTP/2.0" + REST, 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "unknown method": (b"BREW /ping HTTP/1.1" + REST, 501),
    "lower-case method": (b"get /ping HTTP/1.1" + REST, 501),
    "method of another protocol": (b"SOURCE /ping HTTP/1.1" + REST, 501),
    "tab in the query": (b"GET /ping?a\tb HTTP/1.1" + REST, 400),
    "space in the query": (b"GET /ping?a b HTTP/1.1" + REST, 400),
    "longer method": (b"GETX /ping HTTP/1.1" + REST, 501),
    "method that is no token": (b"G(T /ping HTTP/1.1" + REST, 400),
    "two methods": (b"G T /ping HTTP/1.1" + REST, 400),
    "unknown method without a version": (b"BREW /ping" + REST, 400),
    "unknown method of another protocol": (b"BREW /ping HTCPCP/1.1" + REST, 400),
    "CONNECT": (b"CONNECT test:80 HTTP/1.1" + REST, 405),
    "no leading slash": (b"GET ping HTTP/1.1" + REST, 400),
    "asterisk": (b"GET * HTTP/1.1" + REST, 400),
    "fragment": (b"GET /ping#a HTTP/1.1" + REST, 400),
    "raw bytes": (b"GET /\xe9 HTTP/1.1" + REST, 400),
    "NUL": (b"GET /a\0b HTTP/1.1" + REST, 400),
    "what no path may hold": (b'GET /"<>\\^`{|} HTTP/1.1' + REST, 400),
    "percent sign alone": (b"GET /100% HTTP/1.1" + REST, 400),
    "no hexadecimal digits": (b"GET /%zz HTTP/1.1" + REST, 400),
    "encoded NUL": (b"POST /a%00b/predict HTTP/1.1" + REST, 400),
    "encoded line end": (b"POST /a%0d%0aX:1/predict HTTP/1.1" + REST, 400),
    "another scheme": (b"GET ftp://test/ping HTTP/1.1" + REST, 400),
    "absolute form with a user": (b"GET http://me@test/ping HTTP/1.1" + REST, 400),
    "absolute form without a host": (b"GET http:///ping HTTP/1.1" + REST, 400),
    "too long": (b"GET /" + b"a" * 9000 + b" HTTP/1.1" + REST, 414),
}


@pytest.mark.parametrize(("sent", "status"), TAKEN.values(), ids=TAKEN)
def test_request_line_is_taken(shared, sent, status):
    assert status_of(shared, sent) == status


@pytest.mark.parametrize(("sent", "status"), REFUSED.values(), ids=REFUSED)
def test_request_line_is_refused(shared, sent, status):
    assert refusal_of(shared, sent) == status


BEFORE = {
    "nothing": b"",
    "a request": GET,
    "a body": HEAD + b"Content-Length: 2\r\n\r\nhi",
    "requests and a body": GET + HEAD + b"Content-Length: 2\r\n\r\nhi" + b"\r\n" + GET,
    "chunks": HEAD + CHUNKS,
    "a wish for another protocol": GET[:-2] + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n",
}
LINES = (
    "two spaces after the method",
    "RTSP",
    "ICE",
    "space at the end",
    "method of another protocol",
    "unknown method",
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("line", LINES)
def test_line_is_refused_wherever_it_stands(line, before, size):
    sent, parser, failure = before + REFUSED[line][0], make_parser(), None
    for start in range(0, len(sent), size):
        failure = failure or parser.feed(sent[start : start + size])

    assert isinstance(failure, ServekitError)
    assert failure.status == REFUSED[line][1]
    assert len(parser.requests) == sum(before.count(each) for each in (b"GET ", b"POST "))


@pytest.mark.parametrize(
    ("line", "status", "allow"),
    [
        pytest.param(b"OPTIONS * HTTP/1.1", 204, {"GET", "HEAD", "OPTIONS", "POST"}, id="server"),
        pytest.param(
            b"OPTIONS http://test HTTP/1.1",
            204,
            {"GET", "HEAD", "OPTIONS", "POST"},
            id="server by its URL",
        ),
        pytest.param(b"OPTIONS /echo/predict HTTP/1.1", 204, {"POST"}, id="prediction"),
        pytest.param(b"OPTIONS /ping HTTP/1.1", 200, {"GET", "HEAD", "OPTIONS"}, id="other route"),
        pytest.param(b"PUT /echo/predict HTTP/1.1", 405, {"POST"}, id="405 of a prediction"),
        pytest.param(b"PUT /ping HTTP/1.1", 405, {"GET", "HEAD", "OPTIONS"}, id="405 of another"),
    ],
)
def test_methods_that_there_are_are_named(shared, line, status, allow):
    with shared.connect() as sock:
        sock.sendall(line + REST)
        answer = receive(sock)

        assert answer[0] == status
        assert set(answer[1]["allow"].split(", ")) == allow


@pytest.mark.parametrize(
    "path", ["/ping/live", "/nope", "/echo/predict", "/nope/predict", "/metrics"]
)
def test_answer_to_head_has_no_body(shared, path):
    with shared.connect() as sock:
        sock.sendall(b"HEAD %b HTTP/1.1" % path.encode() + REST)
        sock.sendall(HEAD + b"Content-Length: 2\r\n\r\nhi")
        text = b""
        while not text.endswith(b"\r\n\r\nhi"):
            text += sock.recv(65_536)

        head, _, rest = text.partition(b"\r\n\r\n")
        assert b"Content-Length: " in head
        assert rest.startswith(b"HTTP/1.1 200 ")

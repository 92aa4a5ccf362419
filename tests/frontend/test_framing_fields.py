# SPDX-License-Identifier: Apache-2.0
"""Header fields (RFC 9112 5, 3.2; RFC 9110 5, 7.2, 10.1.1): what is taken, what is refused."""

import pytest

from .conftest import receive
from .framing import HEAD, refusal_of, status_of

LINE = b"GET /ping/live HTTP/1.1\r\n"
HOST = LINE + b"Host: test\r\n"
WAITING = HEAD + b"Content-Length: 2\r\n"

TAKEN = {
    "tabs and spaces around a value": HOST + b"X:\t a\tb \t\r\n\r\n",
    "value beyond ASCII": HOST + b"X: \xff\xe9\r\n\r\n",
    "empty value": HOST + b"X:\r\n\r\n",
    "name of all signs of a token": HOST + b"!#$%&'*+-.^_`|~9: y\r\n\r\n",
    "repeated field": HOST + b"X: a\r\nX: b\r\n\r\n",
    "hundred fields": HOST + b"".join(b"X%d: y\r\n" % i for i in range(99)) + b"\r\n",
    "Host with a port": LINE + b"Host: test:8080\r\n\r\n",
    "Host with an empty port": LINE + b"Host: test:\r\n\r\n",
    "Host of IPv6": LINE + b"Host: [::1]:8080\r\n\r\n",
    "Host in spaces": LINE + b"Host:  test \r\n\r\n",
    "Expect of a request without a body": HOST + b"Expect: 100-continue\r\n\r\n",
}

REFUSED = {
    "bare LF after a field": (HOST + b"X: y\nZ: a\r\n\r\n", 400),
    "bare LF at the end": (HOST + b"\n", 400),
    "bare CR in a value": (HOST + b"X: a\rb\r\n\r\n", 400),
    "bare CR after a field": (LINE + b"Host: test\rX: y\r\n\r\n", 400),
    "folded value": (HOST + b"X: a\r\n b\r\n\r\n", 400),
    "value folded by a tab": (HOST + b"X: a\r\n\tb\r\n\r\n", 400),
    "folded empty value": (HOST + b"X:\r\n b\r\n\r\n", 400),
    "space before the first field": (LINE + b" Host: test\r\n\r\n", 400),
    "space before the colon": (HOST + b"X : y\r\n\r\n", 400),
    "tab before the colon": (HOST + b"X\t: y\r\n\r\n", 400),
    "no colon": (HOST + b"X\r\n\r\n", 400),
    "no name": (HOST + b": y\r\n\r\n", 400),
    "parenthesis in a name": (HOST + b"X(: y\r\n\r\n", 400),
    "slash in a name": (HOST + b"X/Y: y\r\n\r\n", 400),
    "name beyond ASCII": (HOST + b"X\xe9: y\r\n\r\n", 400),
    "NUL in a name": (HOST + b"X\0: y\r\n\r\n", 400),
    "NUL in a value": (HOST + b"X: a\0b\r\n\r\n", 400),
    "control in a value": (HOST + b"X: a\x01b\r\n\r\n", 400),
    "DEL in a value": (HOST + b"X: a\x7fb\r\n\r\n", 400),
    "too many fields of one name": (HOST + b"X: y\r\n" * 102 + b"\r\n", 431),
    "too many fields": (HOST + b"".join(b"X%d: y\r\n" % i for i in range(101)) + b"\r\n", 431),
    "too large a field": (HOST + b"X: " + b"a" * 60_000 + b"\r\n\r\n", 431),
    "no Host": (LINE + b"\r\n", 400),
    "empty Host": (LINE + b"Host:\r\n\r\n", 400),
    "two Hosts": (HOST + b"Host: test\r\n\r\n", 400),
    "list of Hosts": (LINE + b"Host: a, b\r\n\r\n", 400),
    "user in Host": (LINE + b"Host: me@test\r\n\r\n", 400),
    "path in Host": (LINE + b"Host: test/a\r\n\r\n", 400),
    "address in Host": (LINE + b"Host: http://test\r\n\r\n", 400),
    "query in Host": (LINE + b"Host: a?b\r\n\r\n", 400),
    "space in Host": (LINE + b"Host: a b\r\n\r\n", 400),
    "Host of bad encoding": (LINE + b"Host: a%zz\r\n\r\n", 400),
    "Host of a port alone": (LINE + b"Host: :80\r\n\r\n", 400),
    "Host with letters for a port": (LINE + b"Host: a:8x\r\n\r\n", 400),
    "Host of half a bracket": (LINE + b"Host: [::1\r\n\r\n", 400),
    "Host beyond ASCII": (LINE + b"Host: \xe9\r\n\r\n", 400),
    "no Host beside the absolute form": (b"GET http://test/ping HTTP/1.1\r\n\r\n", 400),
    "body in brotli": (WAITING + b"Content-Encoding: br\r\n\r\nhi", 415),
    "unknown expectation": (WAITING + b"Expect: 200-ok\r\n\r\n", 417),
    "one of two expectations": (WAITING + b"Expect: 100-continue, x\r\n\r\n", 417),
    "two credentials": (HOST + b"Authorization: a\r\nAuthorization: b\r\n\r\n", 400),
}


@pytest.mark.parametrize("sent", TAKEN.values(), ids=TAKEN)
def test_fields_are_taken(shared, sent):
    assert status_of(shared, sent) == 200


@pytest.mark.parametrize(("sent", "status"), REFUSED.values(), ids=REFUSED)
def test_fields_are_refused(shared, sent, status):
    assert refusal_of(shared, sent) == status


@pytest.mark.parametrize("path", ["/echo/predict", "/metrics"])
def test_space_around_a_value_is_no_part_of_it(shared, path):
    with shared.connect() as sock:
        sock.sendall(b"POST %b HTTP/1.1\r\nHost: a\r\nX-Request-Id:  r-1 \t\r\n" % path.encode())
        sock.sendall(b"Content-Length: 1\r\n\r\nx")

        assert receive(sock)[1]["x-request-id"] == "r-1"


@pytest.mark.parametrize(
    ("head", "continues"),
    [
        pytest.param(WAITING + b"Expect: 100-continue\r\n\r\n", True, id="asked for"),
        pytest.param(WAITING + b"expect: 100-CONTINUE\r\n\r\n", True, id="in any case"),
        pytest.param(
            WAITING + b"Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n", True, id="twice"
        ),
        pytest.param(WAITING + b"Expect:\r\n\r\n", False, id="nothing expected"),
        pytest.param(
            WAITING.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\n\r\n", False, id="HTTP/1.0"
        ),
    ],
)
def test_body_is_asked_for(shared, head, continues):
    with shared.connect() as sock:
        sock.sendall(head)
        if continues:
            assert sock.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hi")

        assert receive(sock)[::2] == (200, b"hi")

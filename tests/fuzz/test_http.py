# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""Whatever a client sends: one answer to a request, well-formed, never of another; the server lives."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.frontend.conftest import FrontEndUnderTest, post, receive
from tests.fuzz.grammar import pieces, streams
from tests.fuzz.oracle import ask, judge
from tests.fuzz.reference import read

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))  #: 0: the same few every time


@pytest.fixture(scope="module")
def front_end(tmp_path_factory):
    started = FrontEndUnderTest(tmp_path_factory.mktemp("run"))
    yield started
    assert started.process.poll() is None, "the front-end died"
    assert started.stop() == 0


@pytest.mark.timeout(3600)
@settings(
    max_examples=EXAMPLES or 400,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_every_stream_gets_what_it_deserves(front_end, data):
    stream = data.draw(streams())
    found = ask(front_end.port, data.draw(pieces(stream)))

    judge(stream, found)
    with front_end.connect() as sock:
        sock.sendall(post(b"alive"))
        assert receive(sock)[::2] == (200, b"alive")


@pytest.mark.parametrize(
    ("stream", "bodies", "rest"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxGET", [b"x"], b"GET"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2, [b"", b""], b""),
        (b"GET / HTTP/1.0\r\nHost: a\r\n\r\nGET", [b""], b"GET"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\n\r\n", [b"hi"], b""),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", [], None),
        (b"GET / HTTP/1.1\nHost: a\n\n", [], None),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", [], None),
    ],
)  # fmt: skip
def test_the_judge_knows_the_law(stream, bodies, rest):
    found, doubtful = read(stream)

    assert [request.body for request in found] == bodies
    assert doubtful == (stream if rest is None else rest)

# SPDX-License-Identifier: Apache-2.0
"""Requests whose bodies come compressed."""

import gzip
import os
import threading
import tracemalloc
import zlib

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.errors import BodyMalformed, BodyTooLarge, QueueFull
from servekit.extension import BaseExchange, HttpRequest
from servekit.frontend.memory import pressure as measured
from servekit.frontend.memory.pressure import Pressure
from servekit.frontend.middleware.codings import coding
from servekit.frontend.middleware.decompression import (
    MAX_FRAMES,
    Decompression,
    InflatedBody,
    decompressed,
)
from servekit.ipc.batches import Slab
from servekit.settings import Settings
from tests.waiting import wait_until

from .clients import forget_batches, next_batch, resident
from .conftest import WAIT_S, FrontEndUnderTest, post, receive

GZIP = coding("gzip")
MAX_BODY = 2**20
NOISE = os.urandom(300_000)  #: stays as large as it is
BOMB = gzip.compress(bytes(20 * MAX_BODY), 9)
HEADER = "Content-Encoding: gzip"


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """One front-end that takes gzip, and bodies of 1 MiB at most."""
    front_end = FrontEndUnderTest(
        tmp_path_factory.mktemp("run"), compression=("gzip",), max_body=MAX_BODY
    )
    yield front_end
    assert front_end.stop() == 0


def ask(front_end, text):
    with front_end.connect() as sock:
        sock.sendall(text)
        return receive(sock)


def chunked(body, *headers):
    head = post(b"", "Transfer-Encoding: chunked", *headers).replace(b"Content-Length: 0\r\n", b"")
    return b"%b%x\r\n%b\r\n0\r\n\r\n" % (head, len(body), body)


@pytest.mark.parametrize("header", [HEADER, "Content-Encoding: X-GZIP"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[1, 2]", id="small"),
        pytest.param(b"", id="of no bytes"),
        pytest.param(b"1" * 500_000, id="small only while it is packed"),
        pytest.param(NOISE, id="large"),
    ],
)
def test_the_worker_gets_what_was_compressed(front, body, header):
    forget_batches(front.worker)
    packed = gzip.compress(body)

    assert ask(front, post(packed, header))[::2] == (200, body)
    assert ask(front, chunked(packed, header))[::2] == (200, body)
    for _ in range(2):
        (item,) = next_batch(front.worker)
        assert isinstance(item.body, Slab) is (len(body) >= front.settings.large_body)


def test_the_memory_that_large_ones_lay_in_is_free_again(front):
    for body in (NOISE, NOISE[:-1] + b"x"):
        ask(front, post(gzip.compress(body), HEADER))
    ask(front, post(gzip.compress(NOISE)[:-1], HEADER))
    wait_until(lambda: resident(front) == 0, "the arena is empty and trimmed")


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        pytest.param(b"hi", 400, "not in this coding", id="no gzip"),
        pytest.param(b"", 400, "ends early", id="nothing"),
        pytest.param(gzip.compress(b"hello")[:-1], 400, "ends early", id="cut"),
        pytest.param(gzip.compress(b"hello") + b"?!", 400, "not in this", id="something behind it"),
        pytest.param(gzip.compress(NOISE)[:-9] + bytes(9), 400, "not in this", id="a wrong sum"),
        pytest.param(gzip.compress(b"") * 3000, 400, "more than 1024 frames", id="frames"),
        pytest.param(BOMB, 413, "more than 1048576 bytes", id="a bomb"),
        pytest.param(gzip.compress(bytes(MAX_BODY + 1)), 413, "decompressed", id="a byte too much"),
    ],
)
def test_a_body_is_refused_and_the_connection_goes_on(front, body, status, detail):
    forget_batches(front.worker)
    with front.connect() as sock:
        sock.sendall(post(body, HEADER, "X-Request-Id: mine") + post(b"next"))
        refusal, answer = receive(sock), receive(sock)

    assert (refusal[0], refusal[1]["x-request-id"]) == (status, "mine")
    assert detail in refusal[2].decode()
    assert answer[::2] == (200, b"next")
    assert [item.body for item in next_batch(front.worker)] == [b"next"]


@pytest.mark.parametrize("given", ["br", "zstd", "gzip, gzip", "gzip, identity", "*", ""])
def test_another_coding_is_told_which_ones_are_taken(front, given):
    status, headers, body = ask(front, post(b"[1]", f"Content-Encoding: {given}"))

    assert (status, headers["accept-encoding"]) == (415, "gzip, deflate")
    assert b"Content-Encoding: only gzip or deflate is supported" in body


@pytest.mark.parametrize(
    ("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_requests_are_decompressed_where_responses_are_not_compressed(shared, coding, compress):
    status, headers, _ = ask(shared, post(compress(b"[1]"), f"Content-Encoding: {coding}"))

    assert status == 200
    assert not {"content-encoding", "vary"} & headers.keys()
    assert [item.body for item in next_batch(shared.worker)] == [b"[1]"]


def test_answers_keep_their_order_on_one_connection(front):
    packed = gzip.compress(b"1" * 500_000)
    with front.connect() as sock:
        sock.sendall(post(packed, HEADER) + post(b"2") + post(packed, HEADER))
        answers = [receive(sock)[2] for _ in range(3)]

    assert answers == [b"1" * 500_000, b"2", b"1" * 500_000]


def test_a_client_that_leaves_meanwhile_harms_nobody(front):
    packed = gzip.compress(NOISE)
    for _ in range(12):  # all have room in the queue
        with front.connect() as sock:
            sock.sendall(post(packed, HEADER))

    assert ask(front, post(packed, HEADER))[0] == 200


def test_other_routes_know_it_too(front):
    assert ask(front, post(gzip.compress(b"[1]"), HEADER, path="/nobody/predict"))[0] == 404


def test_deflate(start):
    front_end = start(compression=("deflate",))
    header = "Content-Encoding: deflate"
    packed = zlib.compress(b"1" * 500_000)

    assert ask(front_end, post(packed, header))[2] == b"1" * 500_000
    assert ask(front_end, post(packed[:-1], header))[0] == 400
    answer = ask(front_end, post(b"1" * 5000, "Accept-Encoding: deflate"))[2]
    assert zlib.decompress(answer) == b"1" * 5000


def test_zstd(start):
    zstd = pytest.importorskip("backports.zstd", reason="the extra zstd is not installed")
    front_end = start(compression=("zstd",))
    wide = {zstd.CompressionParameter.window_log: 25, zstd.CompressionParameter.checksum_flag: 1}
    compressor = zstd.ZstdCompressor(options=wide)
    spread = compressor.compress(NOISE) + compressor.flush()  # of unknown size, so a whole window
    header = "Content-Encoding: zstd"

    assert ask(front_end, post(zstd.compress(b"1" * 500_000), header))[2] == b"1" * 500_000
    assert ask(front_end, post(zstd.compress(b"a") + zstd.compress(b"b"), header))[2] == b"ab"
    assert ask(front_end, post(zstd.compress(NOISE)[:-1], header))[0] == 400
    assert ask(front_end, post(spread, header))[0] == 400
    assert ask(front_end, post(zstd.compress(bytes(2**26)), header))[0] == 413
    refused = ask(front_end, post(b"1", "Content-Encoding: br"))[1]
    assert refused["accept-encoding"] == "zstd, gzip, deflate"


# ---------------------------------------------------------------- without a front-end


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(1, 10**6))
def test_frames_one_after_another_are_one_body_and_none_is_cut(frames, cut):
    packed = b"".join(map(gzip.compress, frames))

    assert b"".join(decompressed(packed, GZIP)) == b"".join(frames)
    last = len(gzip.compress(frames[-1]))
    with pytest.raises(BodyMalformed):
        list(decompressed(packed[: -1 - cut % (last - 1)], GZIP))


@given(st.binary(max_size=100), st.sampled_from([b"", gzip.compress(b"x")]))
def test_any_bytes_are_read_or_refused(content, before):
    try:
        whole = b"".join(decompressed(before + content, GZIP))
    except BodyMalformed:
        return
    assert whole == (b"x" if before else b"") + (gzip.decompress(content) if content else b"")


def test_a_bomb_takes_no_more_memory_than_a_body_may():
    pieces = InflatedBody(decompressed(BOMB, GZIP), MAX_BODY, Pressure(0, 1.0))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            list(pieces)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2 * MAX_BODY


def decompression(codings, pressure=None):
    settings, pressure = Settings(max_body=MAX_BODY), pressure or Pressure(0, 1.0)
    return Decompression(codings, settings, lambda *_: None, pressure)


@pytest.mark.parametrize("content", [NOISE, bytes(len(NOISE))], ids=["large", "small"])
def test_content_is_counted_while_it_is_decompressed(monkeypatch, content):
    monkeypatch.setattr(measured, "resident", lambda: 0)
    pressure, passed = Pressure(3 * len(NOISE), 5.0), []
    middleware = decompression({b"gzip": GZIP}, pressure)

    def send():
        headers = {b"content-encoding": b"gzip"}
        request = HttpRequest(b"POST", b"/", headers, gzip.compress(content), True, "1.1")
        before = len(passed)
        middleware(BaseExchange(None), request, lambda _exchange, request: passed.append(request))
        with gevent.Timeout(WAIT_S):
            while len(passed) == before:
                gevent.sleep(0.01)
        return passed[-1]

    assert send().body == content
    assert pressure._inflated == 0
    pressure.bodies = len(NOISE)
    refused = send()
    assert isinstance(refused.refusal, QueueFull)
    assert (refused.body, pressure._inflated) == (b"", 0)
    pressure.bodies = 0
    assert send().body == content


def test_the_loop_goes_on_while_a_large_one_is_decompressed():
    passed, may_end = [], threading.Event()
    slow = GZIP._replace(decompressor=lambda: may_end.wait(WAIT_S) and GZIP.decompressor())
    headers = {b"content-encoding": b"slow"}
    request = HttpRequest(b"POST", b"/", headers, gzip.compress(NOISE), True, "1.1")
    proceed = lambda _exchange, request: passed.append(request.body)  # noqa: E731
    decompression({b"slow": slow})(BaseExchange(None), request, proceed)
    gevent.spawn_later(0.05, may_end.set)
    with gevent.Timeout(WAIT_S):
        while not passed:
            gevent.sleep(0.01)

    assert passed == [NOISE]
    assert headers == {}


def test_frames_without_content_end_soon():
    counted = []
    many = GZIP._replace(decompressor=lambda: counted.append(1) or GZIP.decompressor())
    with pytest.raises(BodyMalformed, match="frames"):
        list(decompressed(gzip.compress(b"") * 100_000, many))

    assert len(counted) == MAX_FRAMES + 1

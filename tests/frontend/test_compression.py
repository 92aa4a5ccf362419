# SPDX-License-Identifier: Apache-2.0
"""Answers for clients that accept a coding."""

import gzip
import threading
import zlib

import gevent
import pytest

from servekit.errors import StartupError
from servekit.extension import BaseExchange, HttpRequest, HttpResponse
from servekit.frontend.middleware import codings
from servekit.frontend.middleware.codings import coding
from servekit.frontend.middleware.compression import Compression, best, create_codings
from servekit.settings import Settings

from .clients import next_batch
from .conftest import WAIT_S, FrontEndUnderTest, post, receive

SMALL = b"[1, 2, 3]" * 10
LARGE = b"[1, 2, 3]" * 1000
HUGE = bytes(range(256)) * 1000  #: goes by shared memory where the limit is low


@pytest.fixture(scope="module")
def packing(tmp_path_factory):
    """One front-end that offers gzip, without large bodies in shared memory."""
    front_end = FrontEndUnderTest(tmp_path_factory.mktemp("run"), compression=("gzip",))
    yield front_end
    assert front_end.stop() == 0


def ask(front_end, text):
    with front_end.connect() as sock:
        sock.sendall(text)
        return receive(sock)


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        pytest.param(b"", b"", id="a client that says nothing gets what there is"),
        pytest.param(b"gzip", b"gzip", id="the one that is accepted"),
        pytest.param(b"x-gzip", b"gzip", id="its old name"),
        pytest.param(b"gzip, deflate, br, zstd", b"zstd", id="of equals the first that is offered"),
        pytest.param(b"zstd;q=0.5, gzip;q=0.9", b"gzip", id="the one of higher quality"),
        pytest.param(b"ZSTD ; Q=1.0", b"zstd", id="any case, any space"),
        pytest.param(b"*", b"zstd", id="all are accepted"),
        pytest.param(b"*, zstd;q=0", b"gzip", id="all but one"),
        pytest.param(b"gzip;q=0", b"", id="zero refuses"),
        pytest.param(b"identity, gzip;q=0.5", b"", id="rather none"),
        pytest.param(b"identity;q=0, *;q=0", b"", id="none of all that there are"),
        pytest.param(b"identity;q=0, gzip;q=0", b"", id="neither of two"),
        pytest.param(b"identity;q=0, gzip;q=0.001", b"gzip", id="the last that is left"),
        pytest.param(b"br", b"", id="one that is not offered"),
        pytest.param(b"gzip;q=x, ,;;", b"", id="what is malformed counts for nothing"),
        pytest.param(b"zstd;q=1.5, gzip;q=1.000", b"gzip", id="nothing is better than 1"),
    ],
)
def test_choice(accepted, coding):
    assert best(accepted, [b"zstd", b"gzip"]) == coding


def test_an_answer_is_compressed_for_who_accepts_it(packing):
    status, headers, body = ask(packing, post(LARGE, "Accept-Encoding: gzip"))

    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert (headers["vary"], headers["content-type"]) == ("Accept-Encoding", "application/json")
    assert len(body) < len(LARGE) / 10
    assert gzip.decompress(body) == LARGE


@pytest.mark.parametrize(
    ("body", "header", "media_type"),
    [
        pytest.param(LARGE, "Accept: */*", "application/json", id="nobody asked"),
        pytest.param(SMALL, "Accept-Encoding: gzip", "application/json", id="too small"),
        pytest.param(LARGE, "Accept-Encoding: gzip", "image/png", id="compressed already"),
    ],
)
def test_an_answer_goes_as_it_is(packing, body, header, media_type):
    packing.worker.answer = lambda item: ("", media_type, packing.worker.body(item))
    status, headers, answer = ask(packing, post(body, header))
    packing.worker.answer = lambda item: ("", "application/json", packing.worker.body(item))

    assert (status, answer) == (200, body)
    assert "content-encoding" not in headers
    assert headers["vary"] == "Accept-Encoding"


class Client(BaseExchange):
    """An exchange that only keeps its response."""

    sent = None

    def send(self, response):
        self.sent = response


def test_the_loop_goes_on_while_a_large_one_is_compressed():
    client, may_end, freed = Client(None), threading.Event(), []
    slow = lambda _body: b"in time" if may_end.wait(WAIT_S) else b"late"  # noqa: E731
    codings = {b"slow": coding("gzip")._replace(compress=slow)}
    request = HttpRequest(b"GET", b"/", {b"accept-encoding": b"slow"}, b"", True, "1.1")
    Compression(codings, 1)(client, request, lambda _exchange, _request: None)
    client.respond(HttpResponse(200, HUGE, release=lambda: freed.append(threading.get_ident())))
    gevent.spawn_later(0.05, may_end.set)
    with gevent.Timeout(WAIT_S):
        while client.sent is None:
            gevent.sleep(0.01)

    assert client.sent.body == b"in time"
    assert dict(client.sent.fields) == {"Vary": "Accept-Encoding", "Content-Encoding": "slow"}
    assert freed == [threading.get_ident()], "the memory is not given back by the loop"


def test_shared_memory_that_a_large_one_came_by_is_free_afterwards(packing):
    worker = packing.worker
    slab = worker.arena.allocate(len(HUGE))
    worker.arena.view(slab)[:] = HUGE
    worker.answer = lambda item: ("", "application/octet-stream", slab)
    _, headers, body = ask(packing, post(b"x", "Accept-Encoding: gzip"))
    worker.answer = lambda item: ("", "application/json", worker.body(item))

    assert headers["content-encoding"] == "gzip"
    assert zlib.decompress(body, 31) == HUGE
    ask(packing, post(b"y"))
    assert slab.offset in worker.freed


def test_answers_keep_their_order_on_one_connection(packing):
    with packing.connect() as sock:
        sock.sendall(post(HUGE, "Accept-Encoding: gzip") + post(SMALL, "Accept-Encoding: gzip"))
        first, second = receive(sock), receive(sock)

    assert gzip.decompress(first[2]) == HUGE
    assert second[2] == SMALL


def test_a_client_that_leaves_meanwhile_harms_nobody(packing):
    for _ in range(5):
        with packing.connect() as sock:
            sock.sendall(post(HUGE, "Accept-Encoding: gzip"))
            next_batch(packing.worker)

    assert ask(packing, post(LARGE, "Accept-Encoding: gzip"))[0] == 200


def test_other_routes_are_compressed_too(packing):
    text = b"%b / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
    big = text.replace(b" / ", b" /openapi.json ")
    _, headers, body = ask(packing, big % b"GET")

    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body).startswith(b"{")
    assert "content-encoding" not in ask(packing, text % b"GET")[1]


def test_nothing_changes_where_it_is_off(shared):
    _, headers, body = ask(shared, post(LARGE, "Accept-Encoding: gzip"))

    assert body == LARGE
    assert not {"content-encoding", "vary"} & headers.keys()


def test_zstd(start):
    zstd = pytest.importorskip("backports.zstd", reason="the extra zstd is not installed")
    front_end = start(compression=("zstd", "gzip"))
    _, headers, body = ask(front_end, post(LARGE, "Accept-Encoding: gzip, zstd"))

    assert headers["content-encoding"] == "zstd"
    assert zstd.decompress(body) == LARGE


def test_zstd_without_its_library_ends_the_start(monkeypatch):
    monkeypatch.setattr(codings, "ZSTD", ("no_such_module",))

    with pytest.raises(StartupError, match=r"pip install 'servekit\[zstd\]'"):
        create_codings(Settings(compression=("zstd",)).compression)

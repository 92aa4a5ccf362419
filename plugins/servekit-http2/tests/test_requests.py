# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 as its clients use it: the same answers, many at a time on one connection."""

import asyncio
import gzip
import json
import shutil
import socket
import subprocess
import threading
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from time import monotonic

import httpx
import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from servekit.ipc.table import Interface
from tests.frontend.clients import forget_batches, next_batch, paused, wait_until_arrived
from tests.frontend.conftest import WAIT_S, FrontEndUnderTest, post, receive

from .peer import NO_ERROR, PREFACE, REFUSED_STREAM, Peer, flagged, post_fields

LARGE = bytes(range(256)) * 12_000  #: 3 MB
WINDOW = 65_535  #: of a connection and of a stream, unless more is said


@pytest.fixture
def peer(shared, clients):
    with shared.connect() as sock:
        yield Peer(sock)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A front-end with all that is off by default."""
    directory = tmp_path_factory.mktemp("run")
    front_end = FrontEndUnderTest(
        directory,
        max_connections=3,
        access_log=str(directory / "access.log"),
        compression=("gzip",),
        jobs=4,
        cors_origins=("*",),
    )
    yield front_end
    assert front_end.stop() == 0


@pytest.fixture(scope="module")
def client(shared):
    """httpx, by prior knowledge."""
    url = f"http://127.0.0.1:{shared.port}"
    with httpx.Client(http1=False, http2=True, base_url=url, timeout=WAIT_S) as opened:
        yield opened


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[1, 2]", id="small"),
        pytest.param(LARGE, id="by shared memory"),
        pytest.param([b"a" * 1000] * 300, id="of no declared length"),
    ],
)
def test_prediction_is_answered(client, body):
    content = body if isinstance(body, bytes) else iter(body)

    answer = client.post("/echo/predict", content=content)

    assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
    assert answer.content == (body if isinstance(body, bytes) else b"".join(body))
    assert {"x-request-id", "server-timing", "date"} <= answer.headers.keys()
    assert answer.headers["x-model-version"] == "1.0"


def test_routes_of_flask_answer(client):
    assert client.get("/ping").json() == {"health": "healthy!"}
    assert client.head("/ping").headers["content-length"] == "22"
    assert client.get("/nope").json()["status"] == 404


def test_problem_names_the_request(client):
    answer = client.get("/echo/predict", headers={"X-Request-Id": "mine"})

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "mine"


def test_body_that_is_too_large_is_refused_and_the_connection_goes_on(client):
    refused = client.post("/echo/predict", content=bytes(11_000_000))

    assert (refused.status_code, refused.json()["title"]) == (413, "Body too large")
    assert client.post("/echo/predict", content=b"1").content == b"1"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_curl_speaks_it(shared, clients):
    url = f"http://127.0.0.1:{shared.port}/echo/predict"
    command = ["curl", "-sS", "--http2-prior-knowledge", "-w", " %{http_version}", "-d", "[1]", url]

    said = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)

    if "unsupported" in said.stderr.lower() or "does not support" in said.stderr.lower():
        pytest.skip("this curl has no HTTP/2")
    assert (said.stdout, said.stderr) == ("[1] 2", "")


def test_http1_goes_on_beside_it(shared, peer):
    peer.post(1, b"1")
    with shared.connect() as sock:
        sock.sendall(post(b"2"))
        assert receive(sock)[::2] == (200, b"2")

    assert peer.answer(1)[::2] == (200, b"1")


@pytest.mark.parametrize("cut", [1, 16, 18, 23])
def test_preface_may_come_in_pieces(shared, clients, cut):
    with shared.connect() as sock:
        whole = Recorder()
        Peer(whole).get(1, "/ping")
        sock.sendall(whole.data[:cut])
        wait_until_arrived(sock)
        sock.sendall(whole.data[cut:])

        assert Reader(sock).answer(1)[0] == 200


class Recorder:
    """Stands where a socket would, and keeps what is sent."""

    def __init__(self):
        self.data = b""

    def sendall(self, data):
        self.data += data


class Reader(Peer):
    """Reads what another has asked for."""

    def __init__(self, sock):
        super().__init__(Recorder())
        self.sock = sock


def test_frames_may_come_byte_by_byte(shared, clients):
    whole = Recorder()
    Peer(whole).post(1, b"slow")
    with shared.connect() as sock:
        for byte in whole.data:
            sock.sendall(bytes((byte,)))

        assert Reader(sock).answer(1)[::2] == (200, b"slow")


def test_many_streams_are_answered_on_one_connection(peer):
    streams = range(1, 33, 2)
    for each in streams:
        peer.post(each, b"%d" % each)

    assert [body for _, _, body in peer.answers(*streams)] == [b"%d" % each for each in streams]


def test_streams_are_batched_together(shared, peer):
    shared.worker.is_holding = True
    peer.post(1, b"first")
    next_batch(shared.worker)
    for each in (3, 5, 7):
        peer.post(each, b"%d" % each)
    peer.get(9, "/ping")  # answered after the three are queued, and before them
    assert peer.answer(9)[0] == 200

    shared.worker.is_holding = False
    shared.worker.release()

    assert [item.body for item in next_batch(shared.worker)] == [b"3", b"5", b"7"]
    assert [answer[0] for answer in peer.answers(1, 3, 5, 7)] == [200] * 4


def test_a_dropped_stream_leaves_the_queue(shared, peer):
    shared.worker.is_holding = True
    peer.post(1, b"held")
    next_batch(shared.worker)
    peer.post(3, b"dropped")
    peer.reset(3)
    peer.post(5, b"kept")
    peer.get(7, "/ping")
    peer.answer(7)

    shared.worker.is_holding = False
    shared.worker.release()

    assert [item.body for item in next_batch(shared.worker)] == [b"kept"]
    assert [answer[2] for answer in peer.answers(1, 5)] == [b"held", b"kept"]


def test_expectation_is_met_before_the_body_is_sent(peer):
    fields = post_fields(("expect", "100-continue"), ("content-length", "2"))
    peer.send(peer.headers(1, fields))
    head = peer.wait_for(HeadersFrame, 1)
    assert head.fields == {":status": "100"}

    peer.send(peer.data(1, b"ok", "END_STREAM"))

    assert peer.answer(1)[::2] == (200, b"ok")


def test_body_that_nobody_will_read_is_not_asked_for(peer):
    fields = post_fields(("expect", "100-continue"), ("content-length", "2"), path="/nope")
    peer.send(peer.headers(1, fields))

    assert peer.wait_for(HeadersFrame, 1).fields[":status"] == "404"


def test_trailers_end_a_body_and_mean_nothing(peer):
    peer.send(
        peer.headers(1, post_fields()),
        peer.data(1, b"all"),
        peer.headers(1, [("x-trailer", "1")], "END_HEADERS", "END_STREAM"),
    )

    assert peer.answer(1)[::2] == (200, b"all")


def test_cookies_in_pieces_are_one_field(shared, peer):
    while not shared.worker.headers.empty():
        shared.worker.headers.get_nowait()
    shared.publish(interface=Interface(request_headers=["cookie"]))
    asked, deadline, stream_ids = {}, monotonic() + WAIT_S, count(1, 2)
    while not asked and monotonic() < deadline:  # the front-end may hear of the change later
        stream_id = next(stream_ids)
        peer.post(stream_id, b"1", ("cookie", "a=1"), ("cookie", "b=2"))
        peer.answer(stream_id)
        asked = shared.worker.headers.get(timeout=WAIT_S)
    shared.publish()

    assert asked == {0: {"cookie": "a=1; b=2"}}


# ---------------------------------------------------------------- flow control


@pytest.fixture
def large_answers(shared):
    usual, shared.worker.answer = shared.worker.answer, lambda _: ("", "text/plain", LARGE)
    yield
    shared.worker.answer = usual


def test_answer_waits_for_room_and_holds_up_no_other(shared, peer, large_answers):
    peer.post(1, b"1")
    got = 0
    while got < WINDOW:
        got += len(peer.wait_for(DataFrame, 1).data)
    peer.make_room(1000, 0)
    peer.get(3, "/ping")
    assert peer.answer(3)[0] == 200

    peer.make_room(len(LARGE), 0, 1)
    while not (frame := peer.wait_for(DataFrame, 1)).flags:
        got += len(frame.data)

    assert got + len(frame.data) == len(LARGE)


def test_window_may_be_opened_by_a_setting(shared, clients):
    with shared.connect() as sock:
        peer = Peer(sock, {SettingsFrame.INITIAL_WINDOW_SIZE: 0})
        peer.post(1, b"abc")
        peer.get(3, "/ping", method="HEAD")
        peer.wait_for(HeadersFrame, 3)

        peer.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 2}))
        assert peer.wait_for(DataFrame, 1).data == b"ab"
        peer.make_room(1, 1)

        assert peer.wait_for(DataFrame, 1).data == b"c"


def test_window_of_a_large_body_opens_wide(peer):
    peer.send(peer.headers(1, post_fields(("content-length", str(len(LARGE))))))

    assert peer.wait_for(WindowUpdateFrame, 1).window_increment == (1 << 20) - WINDOW
    peer.reset(1)


def test_window_of_a_refused_body_may_be_opened(peer):
    peer.send(peer.headers(1, post_fields(("content-length", "99999999"))))
    assert peer.answer(1)[0] == 413
    peer.make_room(100, 1)
    peer.get(3, "/ping")

    assert peer.answer(3)[0] == 200


def test_window_may_be_opened_with_every_request(peer):
    for start in range(1, 3001, 100):
        stream_ids = range(start, start + 100, 2)
        for stream_id in stream_ids:
            peer.get(stream_id, "/ping")
            peer.make_room(1, stream_id, 0)

        assert {answer[0] for answer in peer.answers(*stream_ids)} == {200}


# ---------------------------------------------------------------- leaving


def test_in_flight_is_answered_when_the_client_says_goodbye(shared, peer):
    shared.worker.is_holding = True
    peer.post(1, b"1")
    next_batch(shared.worker)
    peer.send(GoAwayFrame(0))
    shared.worker.is_holding = False
    shared.worker.release()

    assert peer.answer(1)[::2] == (200, b"1")
    with pytest.raises(EOFError):
        peer.next_frame()


def test_drain_answers_what_was_asked_and_says_what_was_the_last(start):
    front_end = start()
    front_end.worker.is_holding = True
    with front_end.connect() as sock:
        peer = Peer(sock)
        peer.post(1, b"1")
        next_batch(front_end.worker)
        front_end.publish(is_draining=True)
        front_end.process.terminate()
        warning, sent = open_more(peer)
        assert warning.last_stream_id == 2**31 - 1
        crossed = sent[-1] + 2  # crossed the goodbye on its way
        peer.post(crossed, b"3")
        ping = peer.wait_for(PingFrame)
        peer.send(flagged(PingFrame(0, ping.opaque_data), "ACK"))
        last = peer.wait_for(GoAwayFrame)
        peer.post(crossed + 2, b"5")
        assert (last.last_stream_id, last.error_code) == (crossed, NO_ERROR)
        assert peer.reset_code(crossed + 2) == REFUSED_STREAM

        front_end.worker.is_holding = False
        front_end.worker.release()

        answers = peer.answers(1, *sent, crossed)
        assert [answer[2] for answer in answers] == [b"1", *[b"2"] * len(sent), b"3"]
        with pytest.raises(EOFError):
            peer.next_frame()
    assert front_end.process.wait(WAIT_S) == 0


def test_drain_waits_until_the_last_answer_has_left_the_kernel(start):
    front_end = start()
    front_end.worker.is_holding = True
    front_end.worker.answer = lambda _: ("", "text/plain", LARGE[:300_000])
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        sock.settimeout(WAIT_S)
        sock.connect(("127.0.0.1", front_end.port))
        peer = Peer(sock, {SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1})
        peer.make_room(2**30, 0)
        peer.post(1, b"1")
        next_batch(front_end.worker)
        front_end.publish(is_draining=True)
        front_end.process.terminate()
        front_end.worker.release()
        peer.wait_for(HeadersFrame, 1)
        with pytest.raises(subprocess.TimeoutExpired):
            front_end.process.wait(0.2)

        got = 0
        while not (frame := peer.wait_for(DataFrame, 1)).flags:
            got += len(frame.data)
            peer.make_room(len(frame.data), 0)
        assert got + len(frame.data) == 300_000
        assert peer.wait_for(GoAwayFrame).last_stream_id == 1
        with pytest.raises(EOFError):
            peer.next_frame()
    assert front_end.process.wait(WAIT_S) == 0


def test_a_server_that_stops_says_goodbye_once_between_two_requests(start):
    """Clients that use ``h2``, such as httpx, read nothing after a GOAWAY."""
    front_end = start()
    front_end.worker.is_holding = True
    with front_end.connect() as sock:
        peer = Peer(sock)
        peer.post(1, b"1")
        next_batch(front_end.worker)
        front_end.publish(is_draining=True)
        front_end.worker.is_holding = False
        front_end.worker.release()
        assert peer.answer(1)[::2] == (200, b"1")
        frames = list(iter_frames(peer))

        assert [type(frame) for frame in frames] == [GoAwayFrame]
        assert (frames[0].last_stream_id, frames[0].error_code) == (1, NO_ERROR)


def test_httpx_loses_no_request_when_a_server_stops(start):
    front_end = start()
    front_end.worker.answer = lambda _: ("", "text/plain", b"1")
    url = f"http://127.0.0.1:{front_end.port}/echo/predict"
    with httpx.Client(http1=False, http2=True) as client:
        assert client.post(url, content=b"1").status_code == 200
        front_end.publish(is_draining=True)
        answers = [client.post(url, content=b"1") for _ in range(20)]

    assert {(answer.status_code, answer.content) for answer in answers} == {(200, b"1")}


def test_drain_waits_for_the_answer_of_a_client_that_sends_nothing_else(start):
    """However long it takes: clients that use ``h2`` could not read it after a GOAWAY."""
    front_end = start()
    front_end.worker.is_holding = True
    with front_end.connect() as busy, front_end.connect() as waiting:
        busy, waiting = Peer(busy), Peer(waiting)
        busy.post(1, b"1")
        waiting.post(1, b"1")
        front_end.publish(is_draining=True)
        front_end.process.terminate()
        open_more(busy)  # takes as long as a client has that is not waiting
        front_end.worker.is_holding = False
        front_end.worker.release()
        frames = list(iter_frames(waiting))

    assert GoAwayFrame not in {type(frame) for frame in frames[:-1]}
    assert b"".join(frame.data for frame in frames if isinstance(frame, DataFrame)) == b"1"
    assert (type(frames[-1]), frames[-1].last_stream_id) == (GoAwayFrame, 1)


def open_more(peer):
    """Post ``2`` again and again until the server says goodbye; return that, and the streams."""
    stream_ids, pause, deadline = [], threading.Event(), monotonic() + WAIT_S
    while monotonic() < deadline:
        stream_ids.append(stream_ids[-1] + 2 if stream_ids else 3)
        peer.post(stream_ids[-1], b"2")
        ping = PingFrame(0, b"%8d" % stream_ids[-1])
        peer.send(ping)
        while not is_answer(frame := peer.next_frame(), ping):
            if isinstance(frame, GoAwayFrame):
                return frame, stream_ids
        pause.wait(0.1)
    pytest.fail("the server does not say goodbye")


def is_answer(frame, ping):
    return isinstance(frame, PingFrame) and frame.opaque_data == ping.opaque_data


def iter_frames(peer):
    """Yield frames until the server closes the connection."""
    with suppress(EOFError):
        while True:
            yield peer.next_frame()


def test_drain_does_not_wait_for_a_client_that_had_all_its_answers(start):
    front_end = start(grace=300.0)
    with front_end.connect() as sock:
        peer = Peer(sock)
        peer.get(1, "/ping")
        assert peer.answer(1)[0] == 200
        front_end.publish(is_draining=True)
        front_end.process.terminate()

        assert front_end.process.wait(WAIT_S) == 0


def test_idle_connection_is_told_and_closed(start):
    front_end = start(keep_alive=0.3)
    with ExitStack() as stack:
        with paused(front_end):  # else a slow machine may ask for nothing in time
            sock = stack.enter_context(front_end.connect())
            peer = Peer(sock)
            peer.post(1, b"1")
            wait_until_arrived(sock)
        assert peer.answer(1)[0] == 200

        assert peer.goodbye_code() == NO_ERROR


# ---------------------------------------------------------------- settings


def test_it_may_be_turned_off(start):
    with start(http2=False).connect() as sock:
        sock.sendall(PREFACE)

        assert receive(sock)[0] == 505


def test_nobody_turns_to_it_after_http1(shared, clients):
    with shared.connect() as sock:
        sock.sendall(post(b"1"))
        assert receive(sock)[0] == 200
        sock.sendall(PREFACE)

        assert receive(sock)[0] == 505


def test_access_log_names_the_version(tuned):
    with tuned.connect() as sock:
        peer = Peer(sock)
        peer.post(1, b"abc", ("x-request-id", "logged"))
        assert peer.answer(1)[0] == 200

    line = logged(tuned, "logged")

    assert [line[key] for key in ("version", "path", "status", "bytes")] == [
        "2", "/echo/predict", 200, 3,
    ]  # fmt: skip


def logged(front_end, request_id):
    """Return the line of a request, once it is written."""
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        for line in Path(front_end.settings.access_log).read_text().splitlines():
            if json.loads(line)["request_id"] == request_id:
                return json.loads(line)
    raise AssertionError("the answer was not logged")


def test_streams_count_as_connections(tuned):
    forget_batches(tuned.worker)
    tuned.worker.is_holding = True
    with tuned.connect() as sock:
        peer = Peer(sock)
        for stream_id in (1, 3, 5):
            peer.post(stream_id, b"1")

        assert peer.reset_code(5) == REFUSED_STREAM
        next_batch(tuned.worker)
        tuned.worker.is_holding = False
        tuned.worker.release()
        assert [answer[0] for answer in peer.answers(1, 3)] == [200, 200]


def test_client_that_finds_us_full_keeps_its_connection(tuned):
    forget_batches(tuned.worker)
    tuned.worker.is_holding = True
    with tuned.connect() as sock:
        peer = Peer(sock)
        for number in range(400):
            peer.get(2 * number + 1, "/ping") if number > 1 else peer.post(2 * number + 1, b"1")

        assert peer.reset_code(799) == REFUSED_STREAM
        next_batch(tuned.worker)
        tuned.worker.is_holding = False
        tuned.worker.release()
        assert [answer[0] for answer in peer.answers(1, 3)] == [200, 200]


def test_answers_and_requests_are_compressed(tuned):
    with tuned.connect() as sock:
        peer = Peer(sock)
        packed = gzip.compress(b"[0]" * 1000)
        peer.post(1, packed, ("content-encoding", "gzip"), ("accept-encoding", "gzip"))
        status, headers, body = peer.answer(1)

    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == b"[0]" * 1000


def test_a_job_may_be_left_and_come_back_for(tuned):
    with tuned.connect() as sock:
        peer = Peer(sock)
        peer.post(1, b"[7]", ("prefer", "respond-async"))
        status, _, told = peer.answer(1)
        peer.get(3, json.loads(told)["result_url"], ("prefer", "wait=10"))

        assert (status, peer.answer(3)[2]) == (202, b"[7]")


def test_page_of_another_origin_may_read_it(tuned):
    with tuned.connect() as sock:
        peer = Peer(sock)
        peer.post(1, b"1", ("origin", "https://app.example"))
        peer.get(3, "/nope", ("origin", "https://app.example"))

        for _, headers, _ in peer.answers(1, 3):
            assert headers["access-control-allow-origin"] == "*"


def test_many_requests_at_once_share_a_connection(shared):
    async def ask():
        url = f"http://127.0.0.1:{shared.port}"
        async with httpx.AsyncClient(http1=False, http2=True, base_url=url, timeout=WAIT_S) as many:
            posts = [many.post("/echo/predict", content=b"%d" % number) for number in range(16)]
            return [answer.content for answer in await asyncio.gather(*posts)]

    assert asyncio.run(ask()) == [b"%d" % number for number in range(16)]

# SPDX-License-Identifier: Apache-2.0
"""The load generator against servers that answer, err, stall and close connections."""

import signal
import socket
import ssl
import threading
import time

import numpy as np
import pytest
import trustme
from msgspec.structs import replace
from servekit_bench.load import ClosedLoop, OpenLoop, Target, TimedRequest, Tls, generate

from servekit.errors import StartupError

from .scripted_server import ScriptedServer, answer, late

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
REQUEST = TimedRequest("/sum/predict", b'{"x":[1]}', (("Content-Type", "application/json"),))


FOUR = ClosedLoop(4)
LONGEST_S = 60.0


def measure(server, load=FOUR, *, requests=(REQUEST,), duration_s=0.4, enough=1, **more):
    """Measure *enough* requests or more: again and for longer while the machine is too busy."""
    target = Target("127.0.0.1", server.port, requests)
    while True:
        found = generate(target, load, duration_s=duration_s, warmup_s=0.1, **more)
        if found.requests >= enough or found.was_stopped or duration_s > LONGEST_S:
            return found
        duration_s *= 4


def test_answers_are_counted_and_timed():
    began = time.monotonic()
    with ScriptedServer(late(0.01)) as server:
        found = measure(server, enough=10)

    assert found.failures == ()
    assert found.statuses == {200: len(found.latencies_s)}
    assert 0.01 <= found.percentile_s(0) <= found.percentile_s(50) <= found.percentile_s(100)
    assert found.requests_per_s == pytest.approx(found.answered / found.duration_s)
    assert 0 < found.duration_s < time.monotonic() - began


def test_a_request_has_its_path_headers_and_body():
    with ScriptedServer() as server:
        measure(server)

    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /sum/predict HTTP/1.1",
        b"Host: 127.0.0.1:%d" % server.port,
        b"Content-Type: application/json",
        b"Content-Length: 9",
    ]
    assert body == b'{"x":[1]}'


def test_inputs_are_sent_in_turn():
    requests = tuple(TimedRequest("/sum/predict", body) for body in (b"1", b"2", b"3"))
    with ScriptedServer() as server:
        measure(server, ClosedLoop(1), requests=requests, enough=4)

    assert [each[-1:] for each in server.requests[:4]] == [b"1", b"2", b"3", b"1"]


def test_failures_are_counted_by_status_with_the_first_message():
    def script(number):
        return [answer() if number % 2 else answer(b"busy %d" % number, "429 Too Many Requests")]

    with ScriptedServer(script) as server:
        found = measure(server, ClosedLoop(1), enough=4)

    (failure,) = found.failures
    assert failure.kind == "429"
    assert failure.message.startswith("busy ")
    assert failure.count == found.statuses[429]
    assert found.statuses[200] == len(found.latencies_s)


def test_requests_that_are_not_answered_in_time_are_given_up():
    with ScriptedServer(late(60)) as server:
        found = measure(server, ClosedLoop(2), duration_s=2, enough=6, timeout_s=0.2)

    (failure,) = found.failures
    assert failure.kind == "timeout"
    assert found.answered == 0
    assert found.percentile_s(50) >= 0.2


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"Connection: close"], None),
        ([b"SSH-2.0-OpenSSH\r\n"], "not HTTP"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nabc", b"Connection: close"], "closed"),
    ],
    ids=["too long", "another protocol", "too short"],
)
def test_answers_that_are_broken_are_failures(pieces, kind):
    with ScriptedServer(lambda number: pieces) as server:
        found = measure(server, ClosedLoop(1))

    if kind is not None:
        assert kind in {failure.kind for failure in found.failures}
    assert found.failures or kind is None


def test_connections_that_the_server_closes_are_opened_again():
    with ScriptedServer(lambda number: [answer(more="Connection: close\r\n")]) as server:
        found = measure(server, enough=10)

    assert found.answered > 4
    assert found.reconnects > 4
    assert found.failures == ()


def test_answers_without_a_length_end_with_their_connection():
    pieces = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole"]
    with ScriptedServer(lambda number: pieces) as server:
        found = measure(server)

    assert found.failures == ()
    assert found.answered > 0


def test_outputs_of_a_stream_are_timed_one_by_one():
    def script(number):
        yield (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for text in (b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n", b"event: end\ndata: {}\n\n"):
            time.sleep(0.2)
            yield b"%x\r\n%s\r\n" % (len(text), text)
        yield b"0\r\n\r\n"

    with ScriptedServer(script) as server:
        found = measure(server, ClosedLoop(2), duration_s=2, enough=4)

    streams = len(found.streams.first_outputs_s)
    assert streams > 0
    assert found.streams.outputs == 3 * streams
    assert len(found.streams.gaps_s) == 2 * streams
    assert found.streams.first_outputs_s[0] >= 0.2
    assert np.median(found.streams.gaps_s) >= 0.1  # what waits to be read has shorter ones
    assert found.percentile_s(50) >= 0.8


def test_a_stream_that_says_that_it_failed_is_a_failure():
    body = b'data: 1\n\nevent: error\ndata: {"status":500}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    chunk = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with ScriptedServer(lambda number: [head + chunk]) as server:
        found = measure(server, ClosedLoop(1))

    (failure,) = found.failures
    assert failure.kind == "stream"
    assert failure.message == 'event: error\ndata: {"status":500}'
    assert found.answered == 0
    assert found.requests == failure.count


def test_tls_with_a_certificate_of_our_own_authority(tmp_path):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca))
    with ScriptedServer(tls=context) as server:
        target = Target("127.0.0.1", server.port, (REQUEST,), tls=Tls(ca=str(ca)))
        found = generate(target, ClosedLoop(2), duration_s=2, warmup_s=0.1)
        strangers = replace(target, tls=Tls())
        with pytest.raises(StartupError, match="certificate verify failed"):
            generate(strangers, ClosedLoop(1), duration_s=0.1)
        unverified = replace(target, tls=Tls(is_verified=False))
        seen = generate(unverified, ClosedLoop(1), duration_s=2, warmup_s=0)

    assert found.failures == seen.failures == ()
    assert min(found.answered, seen.answered) > 0


def test_large_requests_and_answers():
    request = TimedRequest("/sum/predict", bytes(3_000_000))
    with ScriptedServer(lambda number: [answer(bytes(2_000_000))]) as server:
        found = measure(server, ClosedLoop(2), requests=(request,))

    assert found.failures == ()
    assert found.received_bytes >= 2_000_000 * found.answered


def test_a_server_that_answers_before_it_has_the_body():
    request = TimedRequest("/sum/predict", bytes(8_000_000))
    with ScriptedServer(reads_bodies=False) as server:
        found = measure(server, ClosedLoop(1), requests=(request,), enough=4)

    assert found.answered > 1
    assert found.reconnects > 0
    assert found.failures == ()


def test_a_unix_socket(tmp_path):
    path = str(tmp_path / "socket")
    with ScriptedServer(path=path):
        target = Target("localhost", 0, (REQUEST,), unix_path=path)
        found = generate(target, ClosedLoop(2), duration_s=2, warmup_s=0)

    assert found.answered > 0


def test_an_open_loop_keeps_its_rate():
    with ScriptedServer() as server:
        found = measure(server, OpenLoop(100, "constant"), duration_s=0.5)

    assert found.requests == pytest.approx(50, abs=2)


def test_an_open_loop_measures_from_the_moment_when_a_request_was_due():
    """A stall of 0.3 s is seen by the 30 requests that were due in it, not by one alone."""

    def script(number):
        if number == 60:
            time.sleep(0.3)
        return [answer()]

    with ScriptedServer(script) as server:
        found = measure(server, OpenLoop(100, "constant", connections=1), duration_s=1.5)

    assert np.count_nonzero(found.latencies_s > 0.1) >= 10


def test_requests_without_an_answer_at_the_end_are_counted():
    with ScriptedServer(late(30)) as server:
        load = OpenLoop(20, "constant", connections=2)  # due 0.1, 0.15, 0.2 and 0.25 s after begin
        found = measure(server, load, duration_s=0.18, timeout_s=0.3)

    assert found.answered == 0
    assert found.unanswered + found.failed == 4


def test_processes_share_a_load():
    with ScriptedServer() as server:
        found = measure(server, OpenLoop(100, "constant"), duration_s=0.5, processes=2)

    assert found.generator.processes == 2
    assert found.requests == pytest.approx(50, abs=2)


def test_a_server_that_is_not_there_is_an_error():
    server = ScriptedServer()
    server.listener.shutdown(socket.SHUT_RDWR)
    server.listener.close()

    with pytest.raises(StartupError, match="refused"):
        measure(server)


def test_a_deadline_ends_a_measurement():
    with ScriptedServer() as server:
        for limit_s in (1, 10, 60):  # a busy machine needs longer to start the generator
            deadline = time.monotonic() + limit_s
            found = measure(server, duration_s=600, deadline=deadline)
            if found.answered:
                break

    assert time.monotonic() < deadline + 100
    assert found.was_stopped
    assert found.answered > 0


def test_ctrl_c_ends_a_measurement():
    main = threading.main_thread().ident
    begun = threading.Event()  #: the warm-up is over, and ``generate`` waits for the reports
    left = iter(range(20, -1, -1))  #: requests until Ctrl-C

    def script(number):
        if begun.is_set() and next(left, None) == 0:
            signal.pthread_kill(main, signal.SIGINT)
        return [answer()]

    with ScriptedServer(script) as server:
        found = measure(
            server, duration_s=600, progress=lambda passed_s: passed_s > 0.1 and begun.set()
        )

    assert found.was_stopped
    assert found.answered > 0

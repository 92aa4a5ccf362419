# SPDX-License-Identifier: Apache-2.0
"""Jobs, in a front-end with the plugin servekit-jobs."""

import gzip
import json
import os
import re
import socket
import struct
from time import monotonic

import httpx
import pytest

from tests.waiting import wait_until

from .clients import bodies, forget_batches, next_batch
from .conftest import WAIT_S, FrontEndUnderTest, post, receive

ASYNC = "Prefer: respond-async"
RESET = struct.pack("ii", 1, 0)  #: SO_LINGER: the client closes with a RST
LARGE = os.urandom(300_000)


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    """One front-end that takes jobs."""
    front_end = FrontEndUnderTest(
        tmp_path_factory.mktemp("run"), jobs=100, jobs_size=2**20, compression=("gzip",)
    )
    yield front_end
    assert front_end.stop() == 0


@pytest.fixture
def held(front):
    """Its worker, which answers no batch until it is told to; nothing is left at the end."""
    forget_batches(front.worker)
    front.worker.is_holding = True
    yield front.worker
    front.worker.is_holding = False
    if front.worker.held:
        front.worker.release()


def ask(front_end, text):
    with front_end.connect() as sock:
        sock.sendall(text)
        return receive(sock)


def submit(front_end, body, *headers):
    status, headers, told = ask(front_end, post(body, ASYNC, *headers))
    assert (status, headers["preference-applied"]) == (202, "respond-async")
    job = json.loads(told)
    assert headers["location"] == job["url"] == f"/jobs/{job['id']}"
    return job


def to(path, *headers, method="GET"):
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def state(front_end, job, *headers):
    status, _, body = ask(front_end, to(job["url"], *headers))
    assert status == 200
    return json.loads(body)


def result(front_end, job, *headers):
    return ask(front_end, to(job["result_url"], "Prefer: wait=10", *headers))


def pending(front_end):
    metrics = ask(front_end, to("/metrics"))[2]
    return float(re.search(rb'\nservekit_jobs\{state="pending"\} (.+)\n', metrics)[1])


def let_go(worker):
    """Have the batch answered that the worker is about to get, or has."""
    next_batch(worker)
    worker.release()


# ---------------------------------------------------------------- the life of a job


def test_a_job_is_told_of_and_its_answer_is_the_one_that_the_request_would_have_got(front, held):
    job = submit(front, b"[1]", "X-Request-Id: mine")
    pending = state(front, job)
    early = ask(front, to(job["result_url"]))
    let_go(held)
    status, headers, body = result(front, job)

    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{32}", job["id"])
    assert pending == job | {"status": "pending", "model": "echo"}
    assert (early[0], early[1]["retry-after"], json.loads(early[2])) == (202, "1", pending)
    assert (status, headers["content-type"], body) == (200, "application/json", b"[1]")
    assert headers["x-request-id"] == "mine"
    assert "queue" in headers["server-timing"]
    assert state(front, job) == job | {"status": "completed", "result_status": 200}


def test_a_large_answer_comes_from_shared_memory_whole_and_as_often_as_it_is_asked_for(front):
    job = submit(front, LARGE)

    for _ in range(2):
        assert result(front, job)[::2] == (200, LARGE)
    with front.connect() as sock, sock.makefile("rb") as stream:
        sock.sendall(to(job["result_url"], "Connection: close", method="HEAD"))
        head, _, rest = stream.read().partition(b"\r\n\r\n")
    assert b"\r\nContent-Length: 300000\r\n" in head
    assert rest == b""


def test_an_answer_is_compressed_for_who_accepts_it_when_it_is_fetched(front):
    job = submit(front, b"1" * 5000)
    _, headers, body = result(front, job, "Accept-Encoding: gzip")

    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == b"1" * 5000


def test_a_failure_has_its_own_status_and_problem(front, held):
    job = submit(front, b"x", "X-Request-Id: r7")
    next_batch(held)
    told = held.answer
    held.answer = lambda _item: ("InputError", "", b'{"detail": "no x please"}')
    held.release()
    status, _, body = result(front, job)
    held.answer = told

    assert status == 422
    assert (json.loads(body)["detail"], json.loads(body)["request_id"]) == ("no x please", "r7")
    assert state(front, job) == job | {"status": "failed", "result_status": 422}


def test_what_is_refused_at_once_is_no_job(front):
    status, headers, _ = ask(front, post(b"x", ASYNC, "X-Request-Timeout-Ms: soon"))

    assert status == 400
    assert "location" not in headers


def test_deadlines_hold_for_jobs(front, held):
    submit(front, b"first")
    next_batch(held)
    job = submit(front, b"second", "X-Request-Timeout-Ms: 100")

    assert result(front, job)[0] == 504


# ---------------------------------------------------------------- waiting


def test_an_answer_within_the_wait_is_an_ordinary_one(front):
    status, headers, body = ask(front, post(b"[2]", "Prefer: respond-async, wait=10"))

    assert (status, body) == (200, b"[2]")
    assert "location" not in headers


def test_after_the_wait_there_is_a_job(front, held):
    began = monotonic()
    status, headers, told = ask(front, post(b"[3]", "Prefer: respond-async; x=y, wait=1"))
    let_go(held)

    assert status == 202
    assert 1.0 <= monotonic() - began < 30
    assert ask(front, to(f"{headers['location']}/result", "Prefer: wait=9"))[2] == b"[3]"
    assert json.loads(told)["status"] == "pending"


def test_who_can_have_no_job_after_the_wait_is_told_so_once(start):
    front_end = start(jobs=1)
    worker = front_end.worker
    worker.is_holding = True
    with front_end.connect() as sock:
        sock.sendall(post(b"[0]", "Prefer: respond-async, wait=5"))
        next_batch(worker)
        submit(front_end, b"other")  # before the five seconds are over
        assert receive(sock)[0] == 429
        worker.is_holding = False
        worker.release()  # to nobody

        sock.sendall(post(b"next"))
        assert receive(sock)[::2] == (200, b"next")


def test_a_client_that_leaves_within_the_wait_wants_no_job(front, held):
    submit(front, b"first")
    next_batch(held)
    with front.connect() as sock:
        sock.sendall(post(b"gone", "Prefer: respond-async, wait=30"))
    job = submit(front, b"last")
    ask(front, to("/ping"))  # the end of the one that has gone was read before
    held.release()

    assert bodies(next_batch(held)) == [b"last"]
    held.release()
    assert result(front, job)[2] == b"last"


def test_a_client_that_ends_its_half_within_the_wait_gets_the_answer_itself(front, held):
    with front.connect() as sock:
        sock.sendall(post(b"[6]", "Prefer: respond-async, wait=5"))
        next_batch(held)
        sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: held.cancelled.has(held.held[0], 0), "a worker that is told")
        sock.settimeout(5.2)  # longer than it wants to wait
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(WAIT_S)
        held.release()

        assert receive(sock)[::2] == (200, b"[6]")
        assert sock.recv(1) == b""


def test_a_job_whose_client_is_gone_before_it_is_told_of_is_answered_all_the_same(front, held):
    sock = front.connect()
    sock.sendall(post(b"[7]", ASYNC))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()
    assert bodies(next_batch(held)) == [b"[7]"]
    held.release()

    wait_until(lambda: pending(front) == 0, "its answer")


def test_waiting_ends_with_the_answer_and_not_before(front, held):
    job = submit(front, b"[4]")
    with front.connect() as sock:
        sock.sendall(to(job["url"], "Prefer: wait=30"))
        assert state(front, job)["status"] == "pending"
        let_go(held)
        assert json.loads(receive(sock)[2])["status"] == "completed"


def test_over_http2_it_is_the_same(front):
    url = f"http://127.0.0.1:{front.port}"
    with httpx.Client(http1=False, http2=True, base_url=url, timeout=WAIT_S) as client:
        accepted = client.post("/echo/predict", content=LARGE, headers={"Prefer": "respond-async"})
        job = accepted.json()
        answer = client.get(job["result_url"], headers={"Prefer": "wait=10"})
        at_once = {"Prefer": "respond-async, wait=10"}
        waited = client.post("/echo/predict", content=b"[8]", headers=at_once)

        assert (accepted.status_code, accepted.headers["location"]) == (202, job["url"])
        assert (answer.status_code, answer.content) == (200, LARGE)
        assert (waited.status_code, waited.content) == (200, b"[8]")
        assert client.delete(job["url"]).status_code == 204
        assert client.get(job["url"]).status_code == 404


# ---------------------------------------------------------------- the end of a job


def test_a_job_that_is_deleted_reaches_no_worker(front, held):
    submit(front, b"first")
    next_batch(held)
    job = submit(front, b"second")
    last = submit(front, b"third")

    assert ask(front, to(job["url"], method="DELETE"))[0] == 204
    held.release()
    assert bodies(next_batch(held)) == [b"third"]
    held.release()
    assert result(front, last)[0] == 200
    assert ask(front, to(job["url"]))[0] == 404


def test_a_worker_is_told_that_its_job_is_deleted_and_its_answer_is_forgotten(front, held):
    job = submit(front, LARGE)
    (item,) = next_batch(held)
    held.answer, told = lambda _: ("", "application/octet-stream", item[0]), held.answer
    with front.connect() as sock:
        sock.sendall(to(job["result_url"], "Prefer: wait=30"))
        assert ask(front, to(job["url"], method="DELETE"))[0] == 204
        assert receive(sock)[0] == 404

    held.answer = told
    held.release()
    assert ask(front, to(job["result_url"]))[0] == 404


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("path", ["", "/result"])
def test_there_is_no_job_of_another_id(front, method, path):
    url = f"/jobs/{'0' * 8}-{'0' * 32}{path}"
    expected = 405 if method == "DELETE" and path else 404
    with front.connect() as sock:
        sock.sendall(to(url, method=method))
        assert sock.recv(12) == b"HTTP/1.1 %d" % expected


@pytest.mark.parametrize("path", ["/jobs", "/jobs/", "/jobs/1", "/jobs/../jobs/1/result"])
def test_other_paths_are_not_found(front, path):
    assert ask(front, to(path))[0] == 404


def test_other_methods_are_told_the_right_ones(front):
    job = submit(front, b"1")
    refused = ask(front, to(job["url"], "Content-Length: 0", method="PUT"))
    offered = ask(front, to(job["result_url"], method="OPTIONS"))

    assert (refused[0], refused[1]["allow"]) == (405, "GET, HEAD, OPTIONS, DELETE")
    assert (offered[0], offered[1]["allow"]) == (204, "GET, HEAD, OPTIONS")


def test_an_answer_is_kept_for_its_time(start):
    front_end = start(jobs=2, job_ttl=1.0)
    front_end.worker.is_holding = True
    jobs = [submit(front_end, b"1") for _ in range(2)]
    full = ask(front_end, post(b"1", ASYNC))
    next_batch(front_end.worker)
    front_end.worker.is_holding = False
    front_end.worker.release()
    wait_until(lambda: ask(front_end, to(jobs[0]["url"]))[0] == 404, "the end of its time")

    assert (full[0], json.loads(full[2])["title"]) == (429, "Too many jobs")
    assert "retry-after" in full[1]
    submit(front_end, b"1")


def test_answers_take_no_more_room_than_they_may(front):
    jobs = [submit(front, LARGE) for _ in range(5)]
    statuses = [result(front, job)[0] for job in jobs]
    for job in jobs:
        ask(front, to(job["url"], method="DELETE"))

    assert {200, 507} == set(statuses)
    assert statuses.count(200) <= 2**20 // len(LARGE)


def test_a_stream_cannot_be_fetched_later(front):
    status, _, body = ask(front, post(b"1", ASYNC, "Accept: text/event-stream"))

    assert (status, json.loads(body)["detail"]) == (
        406, "a stream cannot be fetched later: leave Prefer out",
    )  # fmt: skip


def test_nothing_changes_where_it_is_off(shared):
    status, headers, body = ask(shared, post(b"[5]", ASYNC))

    assert (status, body) == (200, b"[5]")
    assert "preference-applied" not in headers
    assert ask(shared, to(f"/jobs/{'0' * 8}-{'0' * 32}"))[0] == 404


def test_jobs_are_counted(front, held):
    submit(front, b"1")
    wait_until(lambda: pending(front) == 1, "a pending job in /metrics")

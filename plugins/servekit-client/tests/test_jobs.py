# SPDX-License-Identifier: Apache-2.0
"""Predictions to come back for, at a server that does as it is told."""

import asyncio
import json
from threading import Event
from time import monotonic

import msgpack
import pytest
from servekit_client import AsyncClient, Client, DeadlineExceeded, InputError

from .conftest import answer

DONE = answer(body=msgpack.packb({"prediction": 4}), content_type="application/msgpack")
PROBLEM = json.dumps({"title": "Input refused", "status": 422}).encode()


def told(status, code=200):
    return answer(code, json.dumps({"id": "j1", "status": status}).encode(), Location="/jobs/j1")


def with_threads(url, use):
    with Client(url, retries=0) as client:
        job = client.submit("m", 2, request_id="r1")
        return [getattr(job, name)(*arguments) for name, *arguments in use]


def with_asyncio(url, use):
    async def run():
        async with AsyncClient(url, retries=0) as client:
            job = await client.submit("m", 2, request_id="r1")
            return [await getattr(job, name)(*arguments) for name, *arguments in use]

    return asyncio.run(run())


@pytest.fixture(params=[with_threads, with_asyncio], ids=["threads", "asyncio"])
def submit(request):
    """Return ``submit(url, *calls)``: submits, then calls the job so."""
    return lambda url, *use: request.param(url, use)


def test_a_result_is_waited_for_and_fetched_once(submit, scripted):
    server = scripted(told("pending", 202), told("pending"), told("completed"), DONE)
    found = submit(server.url, ("result",), ("result",), ("wait",))
    lines = [line for line, _, _ in server.asked]

    assert found == [4, 4, True]
    assert lines == [
        "POST /m/predict HTTP/1.1",
        "GET /jobs/j1 HTTP/1.1",
        "GET /jobs/j1 HTTP/1.1",
        "GET /jobs/j1/result HTTP/1.1",
    ]
    asked, looked = server.asked[0][1], server.asked[1][1]
    assert (asked["prefer"], asked["x-request-id"]) == ("respond-async", "r1")
    assert "x-request-timeout-ms" not in asked
    assert looked["prefer"] == "wait=20"


def test_a_server_that_answers_at_once_is_right_too(submit, scripted):
    server = scripted(DONE)

    assert submit(server.url, ("wait",), ("result",), ("result",)) == [True, 4, 4]


def test_a_job_that_takes_too_long_may_be_asked_for_again(submit, scripted):
    server = scripted(*[told("pending")] * 3)

    assert submit(server.url, ("wait", 0), ("wait", 0)) == [False, False]
    assert "prefer" not in server.asked[1][1]
    server = scripted(*[told("pending")] * 2)
    with pytest.raises(DeadlineExceeded, match="job j1 is still running"):
        submit(server.url, ("result", 0))


def test_a_job_that_failed_raises_what_the_prediction_would_have(submit, scripted):
    failed = answer(422, PROBLEM, "application/problem+json")
    server = scripted(told("pending"), told("failed"), failed)
    with pytest.raises(InputError):
        submit(server.url, ("wait",), ("result",))


@pytest.mark.parametrize("status", [204, 404])
def test_a_job_is_cancelled_if_it_is_still_there(submit, scripted, status):
    server = scripted(told("pending"), answer(status))

    assert submit(server.url, ("cancel",)) == [None]
    assert server.asked[1][0] == "DELETE /jobs/j1 HTTP/1.1"


def test_a_server_that_hangs_ends_a_wait_soon(submit, scripted, monkeypatch):
    monkeypatch.setattr("servekit_client.jobs.LATE_S", 0.2)
    gone = Event()
    server = scripted(told("pending", 202), lambda _: gone.wait(60))
    begun = monotonic()
    try:
        assert submit(server.url, ("wait", 0.2)) == [False]
    finally:
        gone.set()

    assert monotonic() - begun < 30

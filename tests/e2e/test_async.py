# SPDX-License-Identifier: Apache-2.0
"""An async service on a real server: many requests at a time, clients that leave, stuck loops."""

import asyncio
import os
import random
import signal
import socket
from pathlib import Path

import pytest
from servekit_client import AsyncClient

from tests.waiting import wait_for_value, wait_until

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ALONE = "/waiting/alone"


@pytest.fixture(scope="module")
def server(serve):
    return serve("--models", MODELS / "waiting")


def leave_during(server, body, path=ALONE):
    """Send a request, and disconnect once the worker has it."""
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(
            b"POST %b HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"X-Request-Id: r-gone\r\nContent-Length: %d\r\n\r\n%b"
            % (path.encode(), len(body), body)
        )
        wait_for_value(lambda: metric(server, "stage_tasks_running"), 1, "tasks that run")


def metric(server, name):
    lines = server.get("/metrics")[1].decode().splitlines()
    found = [line for line in lines if line.startswith(f"servekit_{name}{{") and "waiting" in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def most_at_a_time(server, count):
    """Return how many of *count* requests have been in the worker at the same time, so far."""

    async def ask_many():
        async with AsyncClient(server.url) as client:
            calls = [client.predict(ALONE, {"pause_s": 0.2}) for _ in range(count)]
            return await asyncio.gather(*calls)

    return max(asyncio.run(ask_many()))


def test_requests_wait_at_the_same_time_up_to_the_bound(server):
    wait_for_value(lambda: most_at_a_time(server, 100), 64, "requests at the same time")


def test_an_async_stage_of_a_pipeline_is_followed_by_the_next(server):
    status, headers, body = server.post("/waiting/predict", b'{"pause_s": 0.01}')

    assert (status, int(body.strip(b'{"prediction":}')) % 2) == (200, 0)
    assert "predict;dur=" in headers["Server-Timing"]
    assert server.post("/waiting/double", b"4")[2] == b'{"prediction":8}'
    assert server.post("/waiting/predict", b'{"then": "refuse"}')[0] == 422


def test_metrics_count_tasks_and_no_streams(server):
    server.post(ALONE, b"{}")
    text = server.get("/metrics")[1].decode()

    assert "servekit_streams_open{" not in text
    assert metric(server, "stage_predict_duration_seconds_count") > 0


def test_a_client_that_disconnects_cancels_its_task(server):
    leave_during(server, b'{"pause_s": 100}')

    server.wait_for("cancelled r-gone")
    wait_for_value(lambda: metric(server, "stage_tasks_running"), 0, "tasks that run")


def test_a_deadline_cancels_the_task(server):
    status, _, _ = server.post(
        ALONE, b'{"pause_s": 100}', X_Request_Timeout_Ms="1500", X_Request_Id="r-late"
    )

    assert status == 504
    server.wait_for("cancelled r-late")


async def one_client(port, rng):
    """Send a request, and leave at a random moment or read the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stays = rng.random() < 0.5
    body = b'{"pause_s": %.3f}' % (rng.random() * 0.05)
    head = b"POST %b HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
    try:
        writer.write(head % ALONE.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        if stays:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        else:
            await asyncio.sleep(rng.random() * 0.05)
    finally:
        writer.transport.abort()


def test_clients_that_leave_at_any_moment_leave_no_task_behind(server):
    rng = random.Random(3)

    async def all_clients():
        for _ in range(10):
            await asyncio.gather(*[one_client(server.port, rng) for _ in range(40)])

    asyncio.run(asyncio.wait_for(all_clients(), 60))
    wait_for_value(lambda: metric(server, "stage_tasks_running"), 0, "tasks that run")

    assert not [line for line in server.lines if "Traceback" in line or "exited" in line]
    assert server.post(ALONE, b"{}")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "reason"),
    [
        pytest.param(b"block", "one step of its event loop took longer than 2 s", id="blocks"),
        pytest.param(b"ignore", "the end of a cancelled request took longer than 2 s", id="stays"),
    ],
)
def test_a_worker_that_is_stuck_is_replaced(server, then, reason):
    before = set(server.workers())
    status = server.post(ALONE, b'{"then": "%b"}' % then)[0]

    assert status in (503, 504)
    server.wait_for(reason)
    wait_until(lambda: not before <= {*server.workers()}, "the worker is replaced")
    wait_until(lambda: server.post(ALONE, b"{}")[0] == 200, "the next one answers")


def test_a_worker_that_dies_fails_its_requests_and_is_replaced(server):
    async def ask_both():
        async with AsyncClient(server.url, retries=0) as client:
            values = [{"pause_s": 1.9}, {"pause_s": 0.1, "then": "die"}]
            calls = [client.predict(ALONE, each) for each in values]
            return await asyncio.gather(*calls, return_exceptions=True)

    assert [error.status for error in asyncio.run(ask_both())] == [503, 503]
    wait_until(lambda: server.get("/ping")[0] == 200, "the worker is replaced")


def test_the_operator_sets_the_bound(serve):
    server = serve("--models", MODELS / "waiting", "--set", "waiting.batching.max_concurrency=2")

    wait_for_value(lambda: most_at_a_time(server, 6), 2, "requests at the same time")


def test_a_preloaded_worker_finishes_its_requests_when_the_server_stops(serve):
    server = serve("--models", MODELS / "waiting", "--set", "waiting.preload=true")

    async def ask_and_stop():
        async with AsyncClient(server.url) as client:
            call = asyncio.create_task(client.predict(ALONE, {"pause_s": 1.5}))
            while not call.done() and metric(server, "stage_tasks_running") == 0:
                await asyncio.sleep(0.01)
            os.kill(server.process.pid, signal.SIGTERM)
            return await call

    assert asyncio.run(ask_and_stop()) == 1

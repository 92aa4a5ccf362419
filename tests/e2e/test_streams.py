# SPDX-License-Identifier: Apache-2.0
"""Streams from a real server: the client, a thousand at once, workers that die."""

import asyncio
import os
import random
import signal
from contextlib import aclosing
from pathlib import Path

import pytest
from servekit_client import AsyncClient, Client, InputError, Unavailable

from tests.waiting import wait_for_value, wait_until

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]
STREAMS = 1000
ENDLESS = 1_000_000


@pytest.fixture(scope="module")
def server(serve):
    patient = "--header-timeout=100", "--send-timeout=200"  # with a thousand clients of one thread
    return serve("--models", MODELS / "counting", *patient)


def is_balanced(directory):
    """Return whether more than 100 generators have been opened, and all closed, in all workers."""
    counts = [path.read_text().split() for path in directory.iterdir()]
    if not all(len(each) == 2 for each in counts):
        return False  # a worker is writing
    opened, closed = (sum(int(each[at]) for each in counts) for at in (0, 1))
    return opened == closed > 100


def metric(server, name):
    lines = server.get("/metrics")[1].decode().splitlines()
    prefix = f'servekit_{name}{{model="counting",version="1.0"}} '
    return sum(float(line.removeprefix(prefix)) for line in lines if line.startswith(prefix))


def test_client_gets_outputs_as_they_come(server):
    with Client(server.url) as client:
        assert list(client.stream("counting", {"to": 3})) == [0, 1, 2]
        assert client.predict("counting", {"to": 3}) == [0, 1, 2]


def test_client_gets_the_error_that_ends_a_stream(server):
    found = []
    with Client(server.url) as client, pytest.raises(InputError, match="far enough") as raised:
        found.extend(client.stream("counting", {"to": 5, "refuse_at": 2}))

    assert found == [] or found == [0, 1]
    assert raised.value.status == 422


def test_asyncio_client_that_stops_early_closes_the_generator(server, tmp_path):
    value = {"to": ENDLESS, "pause_s": 0.001, "directory": str(tmp_path)}

    async def first_three():
        async with (
            AsyncClient(server.url) as client,
            aclosing(client.stream("counting", value)) as outputs,
        ):
            return [await anext(outputs) for _ in range(3)]

    assert asyncio.run(first_three()) == [0, 1, 2]
    wait_until(lambda: any(tmp_path.iterdir()), "the generator is closed")


async def one_stream(port, directory, rng):
    """Ask for a stream, and leave it at a random moment or read it to its end."""
    leaves_after = rng.choice([None, 0, 1, 2, 5, 20])
    to = rng.randrange(1, 30) if leaves_after is None else ENDLESS
    body = b'{"to": %d, "directory": "%b"}' % (to, str(directory).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            b"POST /counting/predict HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n"
            b"Content-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        if leaves_after is None:
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.count(b"data: ") == to + 1
            assert b"event: end" in answer
        for _ in range(leaves_after or 0):
            await reader.readuntil(b"data: ")
        await asyncio.sleep(rng.random() * 0.05)
    finally:
        if rng.random() < 0.5:
            writer.transport.abort()
        writer.close()


async def all_streams(port, directory):
    rng = random.Random(7)
    await asyncio.gather(*(one_stream(port, directory, rng) for _ in range(STREAMS)))


def test_a_thousand_streams_with_clients_that_leave_at_any_moment(server, tmp_path):
    asyncio.run(asyncio.wait_for(all_streams(server.port, tmp_path), 200))
    wait_for_value(lambda: metric(server, "streams_open"), 0, "streams that are open")
    wait_until(lambda: is_balanced(tmp_path), "every generator is closed")

    assert server.lines[-1].count("exited") == 0
    with Client(server.url) as client:
        assert list(client.stream("counting", {"to": 3})) == [0, 1, 2]
        assert client.ping()
    assert metric(server, "tasks_waiting") == 0


def test_worker_that_dies_ends_its_streams_and_is_replaced(server):
    value = {"to": ENDLESS, "pause_s": 0.001}
    with Client(server.url, retries=0) as client:
        outputs = client.stream("counting", value)
        assert next(outputs) == 0
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable):
            list(outputs)
    wait_until(lambda: server.get("/ping")[0] == 200, "the workers are replaced")
    with Client(server.url) as client:
        assert list(client.stream("counting", {"to": 2})) == [0, 1]

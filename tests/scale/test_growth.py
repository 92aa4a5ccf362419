# SPDX-License-Identifier: Apache-2.0
"""Short versions of what ``python -m tests.scale`` measures at full size."""

import json
from pathlib import Path

import pytest

from tests.scale.exposition import scrape, total
from tests.scale.flock import Flock, post
from tests.waiting import wait_until

SUM = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"
HELD = Path(__file__).parent / "models" / "held"
MODELS, CONNECTIONS, WAITING = 6, 800, 400
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_many_models_answer_at_once(serve):
    server = serve("--models", *(f"m{number}={SUM}" for number in range(MODELS)))
    answers = {server.post(f"/m{n}/predict", b'{"x":[1,2]}')[2] for n in range(MODELS)}

    assert answers == {b'{"prediction":3}'}
    counted = total(scrape(server.port), "servekit_requests_total", 'status="200"')
    assert counted == MODELS


def test_idle_connections_cost_little_memory_and_answer_when_asked(serve):
    server = serve("--models", SUM)
    with Flock(server.port, 1) as flock:
        flock.ask(post("/sum/predict"), times=100)
    before = sum(map(own_bytes, server.tree()))
    with Flock(server.port, CONNECTIONS) as flock:
        assert flock.ask(post("/sum/predict")) == {200: CONNECTIONS}
        grown = sum(map(own_bytes, server.tree())) - before
        assert flock.ask(post("/sum/predict")) == {200: CONNECTIONS}

    assert grown / CONNECTIONS < 16_384


def own_bytes(pid: int) -> int:
    """Return the memory of a process that does not depend on which others share its files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


@pytest.fixture
def held(serve, tmp_path):
    """A server whose one worker holds a batch until the file is made, and that batch's client."""
    server = serve("--models", HELD, SUM, f"--queue={WAITING}")
    gate = tmp_path / "gate"
    with Flock(server.port, 1) as first:
        first.send(post("/held/predict", json.dumps({"until": str(gate)}).encode()))
        wait_until(lambda: batch_is_out(server), "the worker has its batch")
        yield server, gate
        gate.touch()
        assert first.receive() == {200: 1}


def batch_is_out(server) -> bool:
    """Whether the worker has what was sent: its one thread sleeps."""
    return any("nanosleep" in Path(f"/proc/{pid}/wchan").read_text() for pid in server.workers())


def test_full_queue_refuses_the_next_and_empties_in_the_end(held):
    server, gate = held
    with Flock(server.port, WAITING) as flock:
        flock.send(post("/held/predict", b"{}"))
        wait_until(lambda: waiting(server) == WAITING, "the queue is full")
        assert server.post("/held/predict", b"{}")[0] == 429
        assert server.post("/sum/predict", b'{"x":[1]}')[0] == 200
        gate.touch()
        assert flock.receive() == {200: WAITING}

    wait_until(lambda: waiting(server) == 0, "the queue is empty")


def waiting(server) -> float:
    return total(scrape(server.port), "servekit_tasks_waiting", 'model="held"')

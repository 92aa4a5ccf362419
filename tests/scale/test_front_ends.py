# SPDX-License-Identifier: Apache-2.0
"""Several front-ends share all workers, and their counts are one."""

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import command_of
from tests.processes import is_alive
from tests.scale.exposition import scrape, total
from tests.scale.flock import Flock, get, post
from tests.waiting import wait_until

SUM = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"
SCRAPES = 8  #: over connections of their own, so that more than one front-end answers
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def front_ends(server) -> list[int]:
    """Return the processes that accept connections: the children of gunicorn's master."""
    found = [pid for pid in server.tree() if b"servekit.frontend" in command_of(pid)]
    parents = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in found}
    return [pid for pid in found if str(pid) not in parents]


def predictions(server) -> set[float]:
    """Return what several scrapes say was answered with 200."""
    texts = [scrape(server.port) for _ in range(SCRAPES)]
    return {total(text, "servekit_requests_total", 'status="200"') for text in texts}


def pings(server) -> float:
    """Return how many health checks a scrape counts."""
    return total(scrape(server.port), "flask_http_request_duration_seconds_count", 'rule="/ping"')


@pytest.mark.parametrize("count", [2, 4])
def test_every_request_is_counted_once_whoever_answers_the_scrape(serve, count):
    server = serve("--models", SUM, f"--front-ends={count}")
    with Flock(server.port, 40) as flock:
        seen = flock.ask(post("/sum/predict"), times=5) + flock.ask(get("/ping"))

    assert seen == {200: 240}
    assert len(front_ends(server)) == count
    wait_until(lambda: predictions(server) == {200.0}, "all is counted")
    wait_until(  # other front-ends add up their batches ten times a second
        lambda: total(scrape(server.port), "servekit_batch_size_sum", 'model="sum"') == 200.0,
        "all batches are counted",
    )
    wait_until(lambda: pings(server) == 40.0, "all health checks are counted")
    assert predictions(server) == {200.0}


def test_killed_front_end_takes_no_counts_along(serve):
    server = serve("--models", SUM, "--front-ends=2")
    with Flock(server.port, 40) as flock:
        flock.ask(post("/sum/predict"), times=5)
    wait_until(lambda: predictions(server) == {200.0}, "all is counted")
    victim = front_ends(server)[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(victim), "the front-end is gone")
    wait_until(lambda: len(front_ends(server)) == 2, "there are two again")

    assert predictions(server) == {200.0}
    with Flock(server.port, 40) as flock:
        assert flock.ask(post("/sum/predict"), times=5) == {200: 200}
    wait_until(lambda: predictions(server) == {400.0}, "all is counted")

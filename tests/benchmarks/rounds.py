# SPDX-License-Identifier: Apache-2.0
"""The run itself: every server in turn, at every number of connections, several times over."""

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks import wrk
from tests.benchmarks.answers import HOST, answers_get, check
from tests.benchmarks.errors import BenchmarkError, NotReady
from tests.benchmarks.figures import Sample
from tests.benchmarks.processes import ServerProcess, free_port, wait_until
from tests.benchmarks.servers import Server

READY_S: Final = 120.0
WARM_UP_S: Final = 1  #: before each measurement, not counted
SETTLE_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int
    seconds: int  #: of one measurement
    connections: tuple[int, ...]


def run(servers: Sequence[Server], plan: Plan, progress: Callable[[str], None]) -> list[Sample]:
    """Measure every server in every round; a different one begins each round."""
    samples = []
    for number in range(plan.rounds):
        first = number % len(servers)
        for server in (*servers[first:], *servers[:first]):
            try:
                with _started(server) as (process, port):
                    for connections in plan.connections:
                        where = f"{server.title}, {connections} connections"
                        progress(f"round {number + 1} of {plan.rounds}: {where}")
                        sample = _measure(server, process, port, connections, plan)
                        samples.append(sample.in_round(number + 1))
            except BenchmarkError as error:
                raise type(error)(f"{server.title}: {error}") from error
    return samples


@contextlib.contextmanager
def _started(server: Server) -> Iterator[tuple[ServerProcess, int]]:
    """Start the server, see that it answers right, and end it whatever happens."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
        port = free_port()
        process = server.start(Path(directory), port)
        try:
            _wait_ready(server, process, port)
            check(port, server.predict_path)
            if server.settle_s:
                _load(server, port, SETTLE_CONNECTIONS, server.settle_s)
            yield process, port
        finally:
            process.stop()


def _wait_ready(server: Server, process: ServerProcess, port: int) -> None:
    def settled() -> bool:
        return not process.is_running or answers_get(port, server.ready_path)

    if not wait_until(settled, seconds=READY_S) or not process.is_running:
        state = "silent" if process.is_running else "gone"
        raise NotReady(f"{state} before it was ready; its last lines:\n{process.last_lines()}")


def _measure(
    server: Server, process: ServerProcess, port: int, connections: int, plan: Plan
) -> Sample:
    _load(server, port, connections, WARM_UP_S)
    before = process.cpu_s()
    load = wrk.run(_url(server, port), connections=connections, seconds=plan.seconds)
    cpu_s = process.cpu_s() - before
    if not process.is_running:
        raise NotReady(f"ended under load; its last lines:\n{process.last_lines()}")
    return Sample.of(server.key, connections, load, cpu_s)


def _load(server: Server, port: int, connections: int, seconds: int) -> None:
    """Load the server; meanwhile ask for other sums, so that a mixed-up batch would show."""
    with wrk.running(_url(server, port), connections=connections, seconds=seconds) as load:
        while load.poll() is None and not server.is_static:
            check(port, server.predict_path, [random.randrange(1000) / 2 for _ in range(4)])
        load.wait()


def _url(server: Server, port: int) -> str:
    return f"http://{HOST}:{port}{server.predict_path}"

# SPDX-License-Identifier: Apache-2.0
"""A server that runs while a block lasts, and has answered right before the block begins."""

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks import wrk
from tests.benchmarks.answers import HOST, Request, answers_get, check
from tests.benchmarks.cases import Case
from tests.benchmarks.errors import NotReady
from tests.benchmarks.processes import ServerProcess, free_port, wait_until
from tests.benchmarks.servers import Server

READY_S: Final = 120.0
VARIANTS: Final = 4  #: other requests that are asked while a server is warmed up
SETTLE_CONNECTIONS: Final = 32

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int
    seconds: int  #: of one measurement
    connections: tuple[int, ...]  #: empty: each workload's own


@dataclass(frozen=True, slots=True)
class Running:
    """A started server."""

    server: Server
    process: ServerProcess
    port: int
    directory: Path

    def target(self, case: Case) -> wrk.Target:
        """Return where wrk sends the request of *case*."""
        request = self.server.request(case)
        body = self.directory / f"{case.key}.body"
        if not body.exists():
            body.write_bytes(request.body)
        url = f"http://{HOST}:{self.port}{request.path}"
        headers = (("Content-Type", request.content_type), *request.headers)
        return wrk.Target(url=url, body=body, headers=headers)

    def load(self, case: Case, connections: int, seconds: int) -> None:
        """Load the server; meanwhile ask for other answers, so that a mixed-up batch would show."""
        others = self.others(case)
        with wrk.running(self.target(case), connections=connections, seconds=seconds) as load:
            while load.poll() is None:
                check(self.port, next(others))
            load.wait()

    def others(self, case: Case) -> Iterator[Request]:
        """Yield requests of *case* whose answers differ, again and again."""
        seeds = range(1, VARIANTS + 1)
        return itertools.cycle([self.server.request(case, seed) for seed in seeds])

    def see_alive(self) -> None:
        """Raise ``NotReady`` if the server has ended."""
        if not self.process.is_running:
            raise NotReady(f"ended under load; its last lines:\n{self.process.last_lines()}")


@contextlib.contextmanager
def private_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextlib.contextmanager
def started(server: Server, cases: Sequence[Case]) -> Iterator[Running]:
    """Start the server for *cases*, which share what it needs, and end it whatever happens."""
    with private_directory() as directory:
        port = free_port()
        process = server.start(directory, port, cases[0])
        running = Running(server, process, port, directory)
        try:
            _wait_ready(running)
            for case in cases:
                check(port, server.request(case))
            if server.settle_s:
                running.load(cases[0], SETTLE_CONNECTIONS, server.settle_s)
            yield running
        finally:
            process.stop()


def _wait_ready(running: Running) -> None:
    process = running.process

    def settled() -> bool:
        return not process.is_running or answers_get(running.port, running.server.ready_path)

    if not wait_until(settled, seconds=READY_S) or not process.is_running:
        state = "silent" if process.is_running else "gone"
        raise NotReady(f"{state} before it was ready; its last lines:\n{process.last_lines()}")


def rotated(things: Sequence[Server], number: int) -> list[Server]:
    """Return *things* with another one first in every round."""
    first = number % len(things) if things else 0
    return [*things[first:], *things[:first]]

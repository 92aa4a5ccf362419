# SPDX-License-Identifier: Apache-2.0
"""How long a server takes to its first answer, and what it holds while it waits for the next."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.answers import check
from tests.benchmarks.cases import SUM
from tests.benchmarks.errors import NotReady, WrongAnswer
from tests.benchmarks.failed import Failed
from tests.benchmarks.processes import ServerProcess, free_port, wait_until
from tests.benchmarks.running import READY_S, Plan, Progress, private_directory, rotated
from tests.benchmarks.servers import Server

EVERY_S: Final = 0.005  #: between two attempts to get an answer
IDLE_S: Final = 2.0  #: between the first answer and the look at the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSample:
    """One start of one server."""

    server: str
    round: int
    start_s: float  #: from exec to the first right answer
    pss_mb: float  #: of the whole tree, in 10^6 bytes
    processes: int


def run(
    servers: Sequence[Server], plan: Plan, progress: Progress, failed: Failed
) -> list[IdleSample]:
    """Start every server once to warm its caches, then once for each round that counts."""
    samples: list[IdleSample] = []
    for number in range(plan.rounds):
        for server in rotated([server for server in servers if not server.is_static], number):
            progress(f"round {number + 1} of {plan.rounds}: {server.title}, start-up and memory")
            with failed.alone(server, "start-up and memory") as is_asked:
                samples += [_visit(server, number + 1)] if is_asked else []
    return samples


def _visit(server: Server, number: int) -> IdleSample:
    with private_directory() as directory:
        _start(server, directory, 0)
        return _start(server, directory, number)


def _start(server: Server, directory: Path, number: int) -> IdleSample:
    """Start the server in *directory*, wait for an answer, look at it, end it."""
    port = free_port()
    began = time.monotonic()
    process = server.start(directory, port, SUM)
    try:
        start_s = _first_answer(server, process, port) - began
        if number:
            time.sleep(IDLE_S)
        sizes = process.pss_bytes()
    finally:
        process.stop()
    return IdleSample(
        server=server.key,
        round=number,
        start_s=start_s,
        pss_mb=sum(sizes.values()) / 1e6,
        processes=len(sizes),
    )


def _first_answer(server: Server, process: ServerProcess, port: int) -> float:
    """Return the moment at which a prediction was answered right for the first time."""
    request = server.request(SUM)

    def answered() -> bool:
        if not process.is_running:
            raise NotReady(f"gone before it was ready; its last lines:\n{process.last_lines()}")
        try:
            check(port, request)
        except WrongAnswer:
            return False
        return True

    if not wait_until(answered, seconds=READY_S, every=EVERY_S):
        raise NotReady(f"silent before it was ready; its last lines:\n{process.last_lines()}")
    return time.monotonic()

# SPDX-License-Identifier: Apache-2.0
"""The server that is measured, and what it uses, by process."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from tests.benchmarks.environments import own_program
from tests.benchmarks.errors import NotReady
from tests.benchmarks.processes import (
    TICKS_PER_S,
    ServerProcess,
    free_port,
    read_pss,
    read_stats,
    wait_until,
)

SUM: Final = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"
HELD: Final = Path(__file__).parent / "models" / "held"
BULK: Final = Path(__file__).parent / "models" / "bulk"
READY_S: Final = 300.0
MODULES: Final = {b"servekit.worker": "workers", b"servekit.frontend": "front-end"}


class Process(NamedTuple):
    """One process of the server."""

    pid: int
    role: str  #: ``supervisor``, ``front-end`` or ``workers``
    ticks: int


class Subject:
    """One ``servekit start`` with settings that let nothing but size decide."""

    def __init__(self, directory: Path, models: Sequence[str], *options: str) -> None:
        """Start it; usable as a context manager that waits until it serves."""
        self.port = free_port()
        argv = [
            own_program("servekit"),
            "start",
            "--port",
            str(self.port),
            "--models",
            *models,
            *options,
        ]
        argv += ["--keep-alive=3600", "--predict-timeout=3600", "--cache-dir", str(directory)]
        self._process = ServerProcess(argv, env=dict(os.environ), cwd=directory)

    def __enter__(self) -> "Subject":
        if not wait_until(self._serves, seconds=READY_S):
            lines = self._process.last_lines()
            self._process.stop()
            raise NotReady(f"servekit does not serve:\n{lines}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.stop()

    def _serves(self) -> bool:
        if not self._process.is_running:
            raise NotReady(f"servekit ended:\n{self._process.last_lines()}")
        return " serving " in self._process.log.read_text(errors="replace")

    @property
    def processes(self) -> list[Process]:
        """Every process of the server that runs now."""
        stats = {stat.pid: stat for stat in read_stats()}
        found = {pid for pid, stat in stats.items() if f"--port\0{self.port}\0" in command_of(pid)}
        grown = True
        while grown:
            more = {pid for pid, stat in stats.items() if stat.parent in found} - found
            found |= more
            grown = bool(more)
        return [Process(pid, role_of(pid), stats[pid].ticks) for pid in sorted(found)]

    def cpu_s(self) -> dict[str, float]:
        """Return CPU seconds, user and system, since the start by role, and in all."""
        used: dict[str, float] = {"all": 0.0}
        for process in self.processes:
            for role in (process.role, "all"):
                used[role] = used.get(role, 0.0) + process.ticks / TICKS_PER_S
        return used

    def pss_bytes(self) -> dict[str, int]:
        """Return memory by role, shared pages by their part, and in all."""
        used = {"all": 0}
        for process in self.processes:
            for role in (process.role, "all"):
                used[role] = used.get(role, 0) + read_pss(process.pid)
        return used


@contextmanager
def started(*models: str, options: tuple[str, ...] = ()) -> Iterator[Subject]:
    """Yield a server that serves."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Subject(Path(directory), models, *options) as subject,
    ):
        yield subject


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def role_of(pid: int) -> str:
    command = command_of(pid).encode()
    return next((role for name, role in MODULES.items() if name in command), "supervisor")

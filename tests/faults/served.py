# SPDX-License-Identifier: Apache-2.0
"""One server in a session of its own: its processes, its log, its end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.subjects import SERVEKIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.faults.procfs import Process
    from tests.faults.subjects import Subject

WAIT_S = 60.0
LEFT_S = 10.0  #: that processes may take to vanish which nothing keeps


class NotAsExpected(Exception):
    """The server did not do in time what the row builds upon."""


class Served:
    """A started server; everything it makes lies in *directory*."""

    def __init__(
        self,
        directory: Path,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        tracer: Sequence[str] = (),
        subject: Subject = SERVEKIT,
    ) -> None:
        """Start it; *environment* is added to ours, and *tracer* is a command that runs it."""
        self.subject = subject
        self.directory = directory
        self.log = directory / "log"
        self.scratch = directory / "tmp"  #: TMPDIR: run directory and all that is temporary
        self.scratch.mkdir(parents=True)
        self.cache = directory / "cache"
        self._command = subject.command(directory, list(map(str, arguments)))
        ours = {key: text for key, text in os.environ.items() if not key.startswith("SERVEKIT_")}
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                [*tracer, *self._command.argv],
                cwd=directory,
                env=ours
                | {"TMPDIR": str(self.scratch)}
                | self._command.environment
                | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self.popen.pid
        self.uncounted: set[str] = set()  #: roles whose processes come and go
        self._is_traced = bool(tracer)
        self._known: set[Process] = set()

    # ------------------------------------------------------------ what it says

    @property
    def said(self) -> str:
        """All of its output."""
        return self.log.read_text(errors="replace")

    def wait_ready(self, timeout_s: float = WAIT_S) -> Served:
        """Wait until it serves on ``port``."""
        self.port = 0

        def is_decided() -> bool:
            self.port = self.subject.port(self._command, self.said)
            return bool(self.port) or self.popen.poll() is not None

        wait_until(is_decided, "the server serves", timeout_s)
        if not self.port:
            raise NotAsExpected(f"the server ended before it served:\n{self.said}")
        if self._is_traced:
            self.pid = self.processes()[1].pid
        return self

    # ------------------------------------------------------------ its processes

    def processes(self) -> list[Process]:
        """Return all of its processes."""
        found = procfs.descendants(self.pid, self.subject.role)
        self._known.update(found)
        return found

    def pids(self, role: str) -> list[int]:
        """Return the pids of a role, such as ``front-end`` or ``worker slow``."""
        return [each.pid for each in self.processes() if each.role.startswith(role)]

    def pid_of(self, role: str) -> int:
        """Return the pid of the first of a role; wait until there is one."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = self.pids(role)
            return bool(found)

        wait_until(is_there, f"there is a {role}")
        return found[0]

    def kill(self, pid: int, number: int = signal.SIGKILL) -> float:
        """Send a signal; return the moment."""
        os.kill(pid, number)
        return monotonic()

    # ------------------------------------------------------------ its end

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = WAIT_S) -> int:
        """Ask it to end and return its exit status."""
        self.processes()
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return self.popen.wait(timeout_s)

    def left_over(self, within_s: float = LEFT_S) -> list[Process]:
        """Return which of the processes we have seen are alive so long after its end."""
        known = list(self._known)
        with suppress(NotAsExpected):
            wait_until(lambda: not procfs.alive(known), "its processes are gone", within_s)
        return procfs.alive(known)

    def end(self) -> None:
        """Kill all that is left of it, however it went."""
        if self.popen.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.stop(timeout_s=10)
        self.processes()
        for process in procfs.alive(list(self._known)):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    """Poll *condition* until it holds."""
    deadline, pause = monotonic() + timeout_s, Event()
    while not condition():
        if monotonic() > deadline:
            raise NotAsExpected(f"not within {timeout_s:g} s: {what}")
        pause.wait(0.01)

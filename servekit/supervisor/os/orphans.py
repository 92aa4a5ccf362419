# SPDX-License-Identifier: Apache-2.0
"""Adopts the processes that services leave behind, and kills them when their worker has ended.

A service may start a daemon in a new session. It becomes our child as soon as the process that
forked it has ended. It may live as long as its worker, and is reaped when it ends.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from servekit.supervisor.os.guard import Guard
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import ORIGIN, Process

__all__ = ["Orphans"]

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
REAP_S = 1.0  #: the longest wait until a killed orphan is reaped
POLL_S = 0.005
MARKED = f"{ORIGIN}=".encode()


class Orphans:
    """Every descendant whose own parent is gone."""

    def __init__(self, loop: Loop, run_dir: Path, known: Callable[[], set[int]]) -> None:
        """Adopt nothing yet.

        :param known: returns the pids of the children that are not orphans.
        """
        self._loop = loop
        self._run_dir = run_dir
        self._known = known
        self._guard: Guard | None = None
        self._is_due = False  #: another sweep follows

    def adopt(self) -> None:
        """Become their parent (``prctl(2)``), and start the guard that kills them if we are killed.

        :raises OSError: the guard cannot be started.
        """
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._guard = Guard(self._run_dir)

    def sweep(self) -> None:
        """Reap those that have ended, and kill those whose worker has ended."""
        try:
            left = _sweep(self._known() | self._guard_pid, _is_left_behind)
        except OSError:  # no descriptor is left to look with
            left = 1
        if left and not self._is_due:
            self._is_due = True
            self._loop.call_later(REAP_S, self._sweep_again)

    def _sweep_again(self) -> None:
        self._is_due = False
        self.sweep()

    def end(self) -> None:
        """Kill and reap every child that is left, and end the guard."""
        deadline = monotonic() + REAP_S
        while _sweep(self._guard_pid, lambda _pid: True) and monotonic() < deadline:
            sleep(POLL_S)
        if self._guard:
            self._guard.close()

    @property
    def _guard_pid(self) -> set[int]:
        return {self._guard.pid} if self._guard else set()


def _sweep(known: Container[int], is_to_go: Callable[[int], bool]) -> int:
    """Reap children that are not *known*, and kill those that must end; count the dying."""
    dying = 0
    for pid in _children():
        if pid not in known:
            with suppress(
                ProcessLookupError, ChildProcessError, PermissionError
            ):  # a setuid program
                if os.waitpid(pid, os.WNOHANG)[0] == 0 and is_to_go(pid):
                    os.kill(pid, signal.SIGKILL)
                    dying += os.waitpid(pid, os.WNOHANG)[0] == 0
    return dying


def _is_left_behind(pid: int) -> bool:
    """Return whether the child that started *pid* has ended.

    The environment of *pid* tells, or else its session, which that child led. A process that has
    changed both stays until we end.
    """
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        session = os.getsid(pid)
    except OSError:  # it has just ended
        return False
    origins = [each.partition(b"=")[2].decode() for each in variables if each.startswith(MARKED)]
    if origins:
        return origins[0] not in Process.living
    return session != pid and not Path(f"/proc/{session}").exists()


def _children() -> list[int]:
    """Return the pids of our children, including zombies."""
    with suppress(OSError):  # some kernels lack this file
        main = os.getpid()
        return [int(pid) for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it went while we looked
        return None
    return int(status.rpartition(")")[2].split()[1])

# SPDX-License-Identifier: Apache-2.0
"""What services start and leave behind: adopted and killed, by us or, after us, by the guard.

A service may start a daemon in a session of its own. We inherit it when its worker is gone.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from servekit.supervisor.guard import Guard
from servekit.supervisor.loop import Loop

__all__ = ["Orphans"]

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
REAP_S = 1.0  #: a killed orphan is reaped after so long at most
PAUSE_S = 0.005


class Orphans:
    """Every descendant whose own parent is gone."""

    def __init__(self, loop: Loop, run_dir: Path, known: Callable[[], set[int]]) -> None:
        """Adopt nothing yet.

        :param known: returns the pids of the children that are no orphans.
        """
        self._loop = loop
        self._run_dir = run_dir
        self._known = known
        self._guard: Guard | None = None

    def adopt(self) -> None:
        """Become their parent (``prctl(2)``), and let the guard find them when we are killed.

        :raises OSError: there is no process for the guard.
        """
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._guard = Guard(self._run_dir)

    def sweep(self) -> None:
        """Kill those that there are; come back for what is not dead yet."""
        try:
            left = _kill_strangers(self._known() | self._guard_pid)
        except OSError:  # no descriptor is left to look with
            left = 1
        if left:
            self._loop.call_later(REAP_S, self.sweep)

    def end(self) -> None:
        """Kill and reap every child that is left, and send the guard home."""
        deadline = monotonic() + REAP_S
        while _kill_strangers(self._guard_pid) and monotonic() < deadline:
            sleep(PAUSE_S)
        if self._guard:
            self._guard.close()

    @property
    def _guard_pid(self) -> set[int]:
        return {self._guard.pid} if self._guard else set()


def _kill_strangers(known: Container[int]) -> int:
    """Kill and reap children of ours that are not *known*; return how many are left."""
    left = 0
    for pid in _children():
        if pid not in known:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                left += os.waitpid(pid, os.WNOHANG)[0] == 0
    return left


def _children() -> list[int]:
    """Return the pids of our children, dead ones that nobody reaped included."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it went while we looked
        return None
    return int(status.rpartition(")")[2].split()[1])

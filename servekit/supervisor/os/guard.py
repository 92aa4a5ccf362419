# SPDX-License-Identifier: Apache-2.0
"""Outlives a supervisor that was killed, just long enough to kill the processes it leaves behind.

Workers and front-ends die with their parent (``servekit.system.parent_death``), but the processes
that they started do not, because PDEATHSIG is not inherited across fork. All of them have a mark
in their environment, by which they are found.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from servekit.supervisor.os.run_directory import remove_with_twin

__all__ = ["MARK", "Guard"]

MARK = "_SERVEKIT_RUN"  #: the variable that everything below one supervisor has
PATIENCE_S = 2.0
POLL_S = 0.01


class Guard:
    """A forked process that waits for our end. The caller must be single-threaded."""

    def __init__(self, run_dir: Path) -> None:
        """Start it and set the mark; if we are killed it also removes *run_dir* and its twin.

        :raises OSError: no process or descriptor is left for it.
        """
        os.environ[MARK] = run_dir.name
        end, self._ours = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _watch(end, run_dir)
            finally:
                os._exit(0)
        os.close(end)

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # it was reaped together with orphans
            os.waitpid(self.pid, 0)
        os.close(self._ours)


def _watch(end: int, run_dir: Path) -> None:
    """Wait until the other end of the pipe *end* is closed, then clean up."""
    os.setsid()  # signals to the supervisor's process group are not for us
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.dup2(end, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    os.read(3, 1)
    mark = f"{MARK}={run_dir.name}".encode()
    deadline = monotonic() + PATIENCE_S
    while _kill_marked(mark) and monotonic() < deadline:
        sleep(POLL_S)
    remove_with_twin(run_dir)


def _kill_marked(mark: bytes) -> int:
    """Kill the processes that have *mark* in their environment; return how many there were."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # gone, or another user's
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    count += 1
    return count

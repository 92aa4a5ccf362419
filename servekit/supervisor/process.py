# SPDX-License-Identifier: Apache-2.0
"""One child process seen from outside: pid, output, exit code, signals."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import cast

from servekit.supervisor.loop import Loop
from servekit.supervisor.output import Lines, Throttle

__all__ = ["Command", "Process", "adopt_orphans", "kill_strangers", "python_module"]

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
READ_BYTES = 1 << 16
LAST_READS = 16  #: a child that is gone is read on for so long, in case somebody floods its pipe


@dataclass(frozen=True, kw_only=True)
class Command:
    """How to start a child."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str | None = None
    inherited: Sequence[int] = field(default=())  #: descriptors, under the same numbers


def python_module(module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return the arguments that run *module*.

    ``-P``: the working directory may be a model's, whose files must not hide a library's.
    """
    return [python, "-P", "-m", module, *arguments]


class Process:
    """A running child. It leads a session of its own, so that its children can be killed too."""

    def __init__(
        self,
        loop: Loop,
        command: Command,
        on_line: Callable[[str], object],
        on_exit: Callable[[int], object],
    ) -> None:
        """Start it.

        :param on_line: gets each line it prints, to stdout or stderr.
        :param on_exit: gets the exit code once, after the last line.
        :raises OSError: it cannot be started.
        """
        self._loop = loop
        self._on_exit = on_exit
        self._popen = subprocess.Popen(
            command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd=command.directory,
            env=dict(command.environment),
            pass_fds=tuple(command.inherited),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.started_at = monotonic()
        self._pidfd = os.pidfd_open(self.pid)
        loop.watch(self._pidfd, lambda _events: self._exited())
        self._output = _Pipe(loop, cast(FileIO, self._popen.stdout), on_line)

    @property
    def tail(self) -> list[str]:
        """The last lines of its output."""
        return list(self._output.lines.tail)

    def signal(self, number: int) -> None:
        """Send a signal to the child alone."""
        if self._pidfd >= 0:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Kill it with its children; works on a stopped one too. The exit is still reported."""
        if self._pidfd >= 0:
            _kill_group(self.pid)

    def _exited(self) -> None:
        # The group goes while its leader is a zombie: until it is reaped nobody else can
        # have its number.
        _kill_group(self.pid)
        self._output.finish()
        self._loop.unwatch(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._on_exit(self._popen.wait())


class _Pipe:
    """The reading end of what a child prints."""

    def __init__(self, loop: Loop, stream: FileIO, on_line: Callable[[str], object]) -> None:
        self.lines = Lines()
        self._loop = loop
        self._stream = stream
        self._fd = stream.fileno()
        self._on_line = on_line
        self._throttle = Throttle()
        os.set_blocking(self._fd, False)
        loop.watch(self._fd, lambda _events: self.read())

    def read(self) -> bool:
        """Read once; return whether there may be more."""
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        self._show(self.lines.feed(chunk) if chunk else self.lines.end())
        if not chunk:
            self._loop.unwatch(self._fd)
        return bool(chunk)

    def finish(self) -> None:
        """Read what is left, and close."""
        for _ in range(LAST_READS):
            if not self.read():
                break
        self._show(self.lines.end())
        for line in self._throttle.end():
            self._on_line(line)
        self._loop.unwatch(self._fd)
        self._stream.close()

    def _show(self, lines: list[str]) -> None:
        for line in self._throttle.admit(lines, monotonic()):
            self._on_line(line)


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone, or another user's by now
        os.killpg(leader, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent is gone (``prctl(2)``)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_strangers(known: Container[int]) -> int:
    """Kill and reap children of ours that we did not start; return how many are left.

    A service may start a daemon in a session of its own. We inherit it when its worker
    is gone.
    """
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

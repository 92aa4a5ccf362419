# SPDX-License-Identifier: Apache-2.0
"""One child process as its parent sees it: pid, output, exit code, signals."""

import itertools
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from time import monotonic
from typing import Any, ClassVar, cast

from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.output import Lines, Throttle
from servekit.supervisor.os.user import User

__all__ = ["ORIGIN", "Process", "ProcessSpec", "python_module"]

#: a variable that a child and its descendants have, with a different value for each child
ORIGIN = "_SERVEKIT_CHILD"
READ_BYTES = 1 << 16
KILLED_S = 0.2  #: until a process that was killed is gone
LAST_READS = 16  #: the most reads after a child has ended, in case a descendant floods its pipe


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """How to start a child."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str | None = None
    inherited: Sequence[int] = field(default=())  #: descriptors, which keep their numbers
    user: User | None = None  #: the user that it runs as; ``None`` is our own
    #: returns the pid of a process that another one forks, by its environment and its output
    fork: Callable[[dict[str, str], int], int] | None = None


def python_module(module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return the arguments that run *module*.

    ``-P``: files in the working directory, which may be a model's, must not hide libraries.
    """
    return [python, "-P", "-m", module, *arguments]


class Process:
    """A running child. It leads a new session, so that its children can be killed too."""

    living: ClassVar[set[str]] = set()  #: the values of ``ORIGIN`` of the children that run
    _numbers = itertools.count()

    def __init__(
        self,
        loop: Loop,
        command: ProcessSpec,
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
        self._origin = str(next(self._numbers))
        environment = {**command.environment, ORIGIN: self._origin}
        start = _start if command.fork is None else _fork
        self.pid, stream, self._wait = start(command, environment)
        self.living.add(self._origin)
        self.started_at = monotonic()
        self._pidfd = os.pidfd_open(self.pid)
        loop.watch(self._pidfd, lambda _events: self._exited())
        self._output = _Pipe(loop, stream, on_line)

    @property
    def tail(self) -> list[str]:
        """The last lines of its output."""
        return list(self._output.lines.tail)

    def signal(self, number: int) -> None:
        """Send a signal to the child alone."""
        if self._pidfd >= 0:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Kill it with its children, even if it is stopped. The exit is still reported."""
        if self._pidfd >= 0:
            _kill_group(self.pid)

    def end(self, patience_s: float) -> None:
        """Wait for its exit, when the loop runs no more; kill it if that takes too long."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(patience_s * 1000):
            self.kill()
        if poll.poll(KILLED_S * 1000):  # otherwise the kernel keeps it, and we do not wait for it
            self._exited()

    def _exited(self) -> None:
        # The group is killed while its leader is a zombie: no other process can have its number
        # until it is reaped.
        _kill_group(self.pid)
        self.living.discard(self._origin)
        self._output.finish()
        self._loop.unwatch(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._on_exit(self._wait())


Started = tuple[
    int, FileIO, Callable[[], int]
]  #: pid, output, and a function that waits for the exit code


def _start(command: ProcessSpec, environment: dict[str, str]) -> Started:
    popen = subprocess.Popen(
        command.arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        cwd=command.directory,
        env=environment,
        pass_fds=tuple(command.inherited),
        start_new_session=True,
        **_rights(command.user),
    )
    return popen.pid, cast("FileIO", popen.stdout), popen.wait


def _fork(command: ProcessSpec, environment: dict[str, str]) -> Started:
    """Let another process fork it; we adopt it, since that process disowns it."""
    assert command.fork is not None
    reading, writing = os.pipe()
    try:
        pid = command.fork(environment, writing)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)

    def wait() -> int:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # reaped as an orphan
            return 0

    return pid, FileIO(reading), wait


def _rights(user: User | None) -> dict[str, Any]:
    """Return the arguments of ``Popen`` that start a process of *user*."""
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": user.groups}


class _Pipe:
    """The reading end of the output of a child."""

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
        """Read the rest, and close."""
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
    with suppress(ProcessLookupError, PermissionError):  # it has ended, or has changed its user
        os.killpg(leader, signal.SIGKILL)

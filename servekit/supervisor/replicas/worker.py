# SPDX-License-Identifier: Apache-2.0
"""One worker as the supervisor sees it: a process and the connection to it."""

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from servekit.ipc.control import BootFailed, Launch, Leaving, Ready, Retire, Stop, WorkerMessage
from servekit.supervisor.os import exits
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import Process, ProcessSpec, python_module
from servekit.supervisor.os.user import User

__all__ = ["Exit", "Worker", "worker_command"]

LEAVE_S = 1.0  #: from the end of its connection to the end of its process


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of one worker."""

    pid: int | None  #: ``None``: it could not be started
    exit_code: int
    reason: str  #: "" where the exit code says it all
    served_s: float | None  #: ``None`` if it was never ready
    lived_s: float
    cause: str  #: one of ``CAUSES``
    is_killed: bool  #: by an outsider, or while it served by us as it hung
    last_lines: tuple[str, ...] = ()  #: of what it printed


def worker_command(
    python: str, label: str, environment: dict[str, str], directory: str, user: User | None
) -> Callable[[int, int], ProcessSpec]:
    """Return what makes the command of a worker from its control and listener descriptors."""

    def command(control: int, listener: int) -> ProcessSpec:
        ours = ("--parent", str(os.getpid()), "--control", str(control))
        arguments = python_module(
            "servekit.worker", label, *ours, "--listener", str(listener), python=python
        )
        return ProcessSpec(
            arguments=arguments,
            environment=environment,
            directory=directory,
            inherited=(control, listener),
            user=user,
        )

    return command


class Worker:
    """From spawn to exit."""

    def __init__(
        self,
        loop: Loop,
        command: Callable[[int, int], ProcessSpec],
        listener: socket.socket,
        launch: Launch,
        *,
        on_line: Callable[[str], object],
        on_ready: Callable[[Ready], object],
        on_exit: Callable[[Exit], object],
    ) -> None:
        """Start it and tell it what to load.

        :raises OSError: it cannot be started.
        """
        self._loop = loop
        self._on_ready = on_ready
        self._on_exit = on_exit
        self._reason = ""
        self._ready_at: float | None = None
        self._is_ours = False
        self._is_fault = False
        self._has_failed = False  #: it said that its service cannot be loaded
        self._oom_kills = exits.oom_kills()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = Process(
                    loop, command(theirs.fileno(), listener.fileno()), on_line, self._exited
                )
            except OSError:
                ours.close()
                raise
        self._link: ControlChannel[WorkerMessage] = ControlChannel(
            loop, ours, WorkerMessage, self._received, self._disconnected
        )
        self._link.send(launch)

    def leave(self) -> None:
        """Ask it to finish the batch that it holds and go."""
        self._is_ours = True
        self._link.send(Stop())

    def retire(self) -> None:
        """Ask it to serve on as long as a front-end has a channel to it, and then go."""
        self._is_ours = True
        self._link.send(Retire())

    def kill(self, reason: str) -> None:
        """Kill it; *reason* explains the exit that follows."""
        self._is_ours = True
        self._reason = self._reason or reason
        self.process.kill()

    def _received(self, message: WorkerMessage) -> None:
        if isinstance(message, Ready):
            self._ready_at = monotonic()
            self._on_ready(message)
        elif isinstance(message, BootFailed | Leaving):
            self._reason = message.reason
            self._has_failed = isinstance(message, BootFailed)

    def _disconnected(self) -> None:
        """Give a dying process time to be reported dead; one that lives on is of no use."""
        self._loop.call_later(LEAVE_S, self._kill_deaf)

    def _kill_deaf(self) -> None:
        self._is_fault = True
        self.kill("its service closed the control channel")

    def _exited(self, exit_code: int) -> None:
        self._link.read()  # its last words may have come with its end
        self._link.close()
        now = monotonic()
        is_oom = self._is_out_of_memory()
        is_outsider = exit_code == -signal.SIGKILL and is_oom is False and not self._is_ours
        is_hung = self._is_ours and self._ready_at is not None and not self._is_fault
        last_lines = tuple(self.process.tail)
        cause = exits.cause(exit_code, is_out_of_memory=is_oom, last_lines=last_lines)
        self._on_exit(
            Exit(
                pid=self.process.pid,
                exit_code=exit_code,
                reason=self._reason or cause,
                served_s=None if self._ready_at is None else now - self._ready_at,
                lived_s=now - self.process.started_at,
                cause=self._kind(exit_code, is_oom=bool(is_oom)),
                is_killed=is_outsider or is_hung,
                last_lines=last_lines,
            )
        )

    def _kind(self, exit_code: int, *, is_oom: bool) -> str:
        is_booting = self._ready_at is None
        if self._is_ours and not self._is_fault:
            return "load_timeout" if is_booting else "hung"
        if self._has_failed or (is_booting and exit_code >= 0):
            return "load_failed"
        if self._is_fault or exit_code >= 0:
            return "exited"
        if exit_code == -signal.SIGKILL:
            return "out_of_memory" if is_oom else "killed"
        return "signal"

    def _is_out_of_memory(self) -> bool | None:
        """Return whether the kernel killed anything for memory meanwhile; ``None``: untold."""
        before, after = self._oom_kills, exits.oom_kills()
        return None if before is None or after is None else after > before

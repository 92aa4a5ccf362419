# SPDX-License-Identifier: Apache-2.0
"""One worker as the supervisor sees it."""

import dataclasses
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from servekit.ipc.control import BootFailed, Launch, Leaving, Ready, Retire, Stop, WorkerMessage
from servekit.supervisor.os import exits
from servekit.supervisor.os.child import Child
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import ProcessSpec, python_module
from servekit.supervisor.os.user import User

__all__ = ["EXIT_S", "Exit", "Worker", "preloading", "worker_command"]

WORKER, PRELOAD = "servekit.worker", "servekit.worker.preload"  #: modules

EXIT_S = 1.0  #: from the end of its connection to the end of its process


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The end of one worker."""

    pid: int | None  #: ``None``: it could not be started
    exit_code: int
    reason: str  #: in words; "" if the exit code says enough
    served_s: float | None  #: ``None`` if it was never ready
    lived_s: float
    cause: str  #: one of ``CAUSES``
    is_killed: bool  #: from outside, or by us because it hung while it served
    last_lines: tuple[str, ...] = ()  #: of what it printed


def worker_command(
    python: str, label: str, environment: dict[str, str], directory: str, user: User | None
) -> Callable[[int, int], ProcessSpec]:
    """Return a function from the control and listener descriptors to how to start the worker."""

    def command(control: int, listener: int) -> ProcessSpec:
        arguments = ["--parent", str(os.getpid()), "--control", str(control)]
        arguments += ["--listener", str(listener)]
        return ProcessSpec(
            arguments=python_module(WORKER, label, *arguments, python=python),
            environment=environment,
            directory=directory,
            inherited=(control, listener),
            user=user,
        )

    return command


def preloading(spec: ProcessSpec) -> ProcessSpec:
    """Return how to start the preloaded parent of workers that *spec* would start."""
    arguments = [PRELOAD if each == WORKER else each for each in spec.arguments]
    return dataclasses.replace(spec, arguments=arguments)


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
        self._child: Child[WorkerMessage] = Child(
            loop,
            lambda control: command(control, listener.fileno()),
            WorkerMessage,
            on_line=on_line,
            on_message=self._received,
            on_exit=self._exited,
            on_disconnect=self._disconnected,
        )
        self.process = self._child.process
        self._child.send(launch)

    def leave(self) -> None:
        """Ask it to finish its batch and exit."""
        self._is_ours = True
        self._child.send(Stop())

    def retire(self) -> None:
        """Ask it to exit once every front-end has closed its channel."""
        self._is_ours = True
        self._child.send(Retire())

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
        """Kill it soon, unless it is exiting: it cannot be controlled any more."""
        self._loop.call_later(EXIT_S, self._kill_deaf)

    def _kill_deaf(self) -> None:
        self._is_fault = True
        self.kill("its service closed the control channel")

    def _exited(self, exit_code: int) -> None:
        now = monotonic()
        is_oom = self._is_out_of_memory()
        is_outsider = exit_code == -signal.SIGKILL and is_oom is False and not self._is_ours
        is_hung = self._is_ours and self._ready_at is not None and not self._is_fault
        last_lines = tuple(self.process.tail)
        likely = exits.likely_reason(exit_code, is_out_of_memory=is_oom, last_lines=last_lines)
        self._on_exit(
            Exit(
                pid=self.process.pid,
                exit_code=exit_code,
                reason=self._reason or likely,
                served_s=None if self._ready_at is None else now - self._ready_at,
                lived_s=now - self.process.started_at,
                cause=self._cause(exit_code, is_oom=bool(is_oom)),
                is_killed=is_outsider or is_hung,
                last_lines=last_lines,
            )
        )

    def _cause(self, exit_code: int, *, is_oom: bool) -> str:
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
        """Return whether the kernel killed a process for memory meanwhile; ``None``: unknown."""
        before, after = self._oom_kills, exits.oom_kills()
        return None if before is None or after is None else after > before

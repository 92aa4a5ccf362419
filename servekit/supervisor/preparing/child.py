# SPDX-License-Identifier: Apache-2.0
"""Turns one entry of ``--models`` into a loadable directory, in a short-lived child.

Archives are read there and not here, so a hostile or slow one can neither stall nor
crash the supervisor. The child is ``prepare.py``.
"""

import os
import socket
from collections.abc import Callable

from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.environment import prepare_environment
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.os.process import Process, ProcessSpec, python_module
from servekit.supervisor.preparing.messages import PrepareOutcome, PrepareRequest

__all__ = ["PrepareChild"]


class PrepareChild:
    """One prepare child and its outcome."""

    def __init__(
        self,
        loop: Loop,
        request: PrepareRequest,
        timeout_s: float,
        on_line: Callable[[str], object],
        on_outcome: Callable[[PrepareOutcome], object],
    ) -> None:
        """Start it; *on_outcome* gets each step, then the model or the error, once.

        :param timeout_s: the longest wait for the next step.

        :raises OSError: the child cannot be started.
        """
        self._on_outcome = on_outcome
        self._last: PrepareOutcome | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            numbers = (str(os.getpid()), str(fd))
            command = ProcessSpec(
                arguments=python_module("servekit.supervisor.preparing", *numbers),
                environment=prepare_environment(os.environ),
                inherited=(fd,),
            )
            self.process = Process(loop, command, on_line, self._exited)
        self._link: ControlChannel[PrepareOutcome] = ControlChannel(
            loop, ours, PrepareOutcome, self._received, lambda: None
        )
        self._link.send(request)
        self._loop, self._timeout_s = loop, timeout_s
        self._timer = self._start_timer()

    def kill(self) -> None:
        """End it at once."""
        self._last = PrepareOutcome(error="stopped")
        self.process.kill()

    def _start_timer(self) -> Timer:
        return self._loop.call_later(self._timeout_s, self._time_out)

    def _received(self, outcome: PrepareOutcome) -> None:
        if outcome.step:
            self._timer.cancel()  # a large asset takes its time; standing still is what is wrong
            self._timer = self._start_timer()
            self._on_outcome(outcome)
        else:
            self._last = outcome

    def _time_out(self) -> None:
        self._last = PrepareOutcome(error=f"not prepared after {self._timeout_s:g} s")
        self.process.kill()

    def _exited(self, exit_code: int) -> None:
        self._timer.cancel()
        self._link.read()
        self._link.close()
        self._on_outcome(self._last or PrepareOutcome(error=f"prepare exited with {exit_code}"))

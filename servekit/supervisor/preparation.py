# SPDX-License-Identifier: Apache-2.0
"""Turns one entry of ``--models`` into a loadable directory, in a short-lived child.

Archives are read there and not here, so a hostile or slow one can neither stall nor
crash the supervisor. The child is ``prepare.py``.
"""

import os
import socket
from collections.abc import Callable

import msgspec

from servekit.supervisor.environment import prepare_environment
from servekit.supervisor.link import Link
from servekit.supervisor.loop import Loop
from servekit.supervisor.process import Command, Process, python_module

__all__ = ["Outcome", "Preparation", "Prepared", "Request"]


class Request(msgspec.Struct, array_like=True):
    """What the child is asked."""

    path: str
    name: str = ""  #: serve it under this name; "" keeps the manifest's
    cache_dir: str = ""  #: "" takes the user's
    install_requirements: bool = False


class Prepared(msgspec.Struct, kw_only=True):
    """A model that can be launched."""

    name: str
    version: str
    description: str
    directory: str
    python: str  #: the interpreter of its environment
    manifest: bytes  #: the ``MANIFEST.json``, with the name it is served under
    replicas: int
    max_batch_size: int
    max_delay_s: float
    predict_timeout_s: float
    load_timeout_s: float
    environment: dict[str, str]
    size_bytes: int  #: of all its files


class Outcome(msgspec.Struct, kw_only=True):
    """What the child answers: steps while it works, and at the end a model or an error."""

    step: str = ""
    model: Prepared | None = None
    error: str = ""


class Preparation:
    """One prepare child and its outcome."""

    def __init__(
        self,
        loop: Loop,
        request: Request,
        timeout_s: float,
        on_line: Callable[[str], object],
        on_outcome: Callable[[Outcome], object],
    ) -> None:
        """Start it; *on_outcome* gets each step, then the model or the error, once.

        :raises OSError: the child cannot be started.
        """
        self._on_outcome = on_outcome
        self._last: Outcome | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            arguments = ["--parent", str(os.getpid()), "--control", str(fd)]
            command = Command(
                arguments=python_module("servekit.supervisor.prepare", *arguments),
                environment=prepare_environment(os.environ),
                inherited=(fd,),
            )
            self.process = Process(loop, command, on_line, self._exited)
        self._link: Link[Outcome] = Link(loop, ours, Outcome, self._received, lambda: None)
        self._link.send(request)
        self._timer = loop.call_later(timeout_s, lambda: self._time_out(timeout_s))

    def kill(self) -> None:
        """End it at once."""
        self._last = Outcome(error="stopped")
        self.process.kill()

    def _received(self, outcome: Outcome) -> None:
        if outcome.step:
            self._on_outcome(outcome)
        else:
            self._last = outcome

    def _time_out(self, timeout_s: float) -> None:
        self._last = Outcome(error=f"not prepared after {timeout_s:g} s")
        self.process.kill()

    def _exited(self, exit_code: int) -> None:
        self._timer.cancel()
        self._link.read()
        self._link.close()
        self._on_outcome(self._last or Outcome(error=f"prepare exited with {exit_code}"))

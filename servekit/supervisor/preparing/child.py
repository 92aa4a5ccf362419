# SPDX-License-Identifier: Apache-2.0
"""The child that prepares a model, as the supervisor sees it.

Archives are read in the child, so that a hostile or slow one cannot block or crash the supervisor.
"""

from collections.abc import Callable

from servekit.supervisor.os.child import Child, module_child
from servekit.supervisor.os.loop import Loop, Timer
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
        """Start it; *on_outcome* gets each step, and at the end the model or the error.

        :param timeout_s: the longest wait for the next step.
        :raises OSError: the child cannot be started.
        """
        self._loop = loop
        self._timeout_s = timeout_s
        self._on_outcome = on_outcome
        self._last: PrepareOutcome | None = None
        self._child: Child[PrepareOutcome] = Child(
            loop,
            module_child("servekit.supervisor.preparing"),
            PrepareOutcome,
            on_line=on_line,
            on_message=self._received,
            on_exit=self._exited,
        )
        self._child.send(request)
        self._timer = self._start_timer()

    @property
    def pid(self) -> int:
        """The pid, also after the child has ended."""
        return self._child.process.pid

    def kill(self, reason: str = "stopped") -> None:
        """Kill it; *reason* is the error."""
        self._last = PrepareOutcome(error=reason)
        self._child.process.kill()

    def _start_timer(self) -> Timer:
        late = f"not prepared after {self._timeout_s:.12g} s"
        return self._loop.call_later(self._timeout_s, lambda: self.kill(late))

    def _received(self, outcome: PrepareOutcome) -> None:
        if outcome.step:
            self._timer.cancel()  # a large asset takes long; only standing still is an error
            self._timer = self._start_timer()
            self._on_outcome(outcome)
        elif self._last is None:
            self._last = outcome

    def _exited(self, exit_code: int) -> None:
        self._timer.cancel()
        self._on_outcome(self._last or PrepareOutcome(error=f"prepare exited with {exit_code}"))

# SPDX-License-Identifier: Apache-2.0
"""A program that is started again whenever it ends: a daemon, or the observer."""

import signal
from collections.abc import Callable
from time import monotonic

from servekit.supervisor.os.backoff import Backoff
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.os.process import Process, ProcessSpec
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal

__all__ = ["KeptProcess"]

LEAVE_S = 5.0  #: from the request to leave to SIGKILL


def send_sigterm(process: Process) -> None:
    """Ask *process* to leave."""
    process.signal(signal.SIGTERM)


class KeptProcess:
    """Keeps one program running until it is stopped."""

    def __init__(
        self,
        loop: Loop,
        kind: str,
        subject: str,
        make_spec: Callable[[], ProcessSpec],
        journal: Journal,
        on_change: Callable[[], object],
        ask_to_leave: Callable[[Process], object] = send_sigterm,
    ) -> None:
        """Start nothing yet.

        :param kind: ``daemon`` or ``observer``: the events of the log begin with it.
        :param subject: the name in the log.
        :param make_spec: called at each start.
        :param on_change: called when the program starts, and when it is gone.
        """
        self._loop = loop
        self._kind = kind
        self._subject = subject
        self._make_spec = make_spec
        self._journal = journal
        self._on_change = on_change
        self._ask_to_leave = ask_to_leave
        self._backoff = Backoff()
        self._process: Process | None = None
        self._timer: Timer | None = None
        self._is_renewing = False
        self._is_stopping = False

    @property
    def pid(self) -> int | None:
        """The pid, while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it.

        :raises OSError: it cannot be started.
        """
        self._process = Process(self._loop, self._make_spec(), self._printed, self._exited)
        self._journal.notice(notices.process_started(self._kind, self._subject, self._process.pid))
        self._on_change()

    def try_to_start(self) -> None:
        """Start it, or try again later if that is not possible."""
        try:
            self.start()
        except OSError as error:
            self._restart(f"cannot be started: {error.strerror}", None)

    def stop(self) -> None:
        """Ask it to leave, and kill it when it does not."""
        if not self._is_stopping:
            self._is_stopping = True
            self._leave()

    def renew(self) -> None:
        """Ask it to leave, and start it again at once."""
        if self._process and not self._is_renewing and not self._is_stopping:
            self._is_renewing = True
            self._leave()

    def kill(self) -> None:
        """Kill it with its children."""
        if self._process:
            self._process.kill()

    def _leave(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._process:
            self._ask_to_leave(self._process)
            self._timer = self._loop.call_later(LEAVE_S, self.kill)

    def _printed(self, line: str) -> None:
        self._journal.line(self._subject, line)

    def _exited(self, exit_code: int) -> None:
        process, self._process = self._process, None
        assert process is not None
        if self._timer:
            self._timer.cancel()
        if self._is_renewing and not self._is_stopping:
            self._is_renewing = False
            self.try_to_start()
        elif not self._is_stopping:
            lived_s = monotonic() - process.started_at
            self._restart(f"exited with {exit_code}", lived_s)
        self._on_change()

    def _restart(self, reason: str, lived_s: float | None) -> None:
        wait = self._backoff.failed(monotonic(), lived_s)
        self._journal.notice(
            notices.process_exited(self._kind, self._subject, reason, lived_s, wait)
        )
        self._timer = self._loop.call_later(wait.delay_s, self.try_to_start)

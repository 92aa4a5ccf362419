# SPDX-License-Identifier: Apache-2.0
"""A program that is started again whenever it ends: a front-end, a daemon, the observer ..."""

import signal
from collections.abc import Callable
from time import monotonic

from servekit.supervisor.os.backoff import Backoff
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.os.process import Process, ProcessSpec
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal

__all__ = ["LEAVE_S", "KeptProcess"]

LEAVE_S = 5.0  #: from the request to leave to SIGKILL, by default


class KeptProcess:
    """Keeps one program running until it is stopped."""

    def __init__(
        self,
        loop: Loop,
        subject: str,
        make_spec: Callable[[], ProcessSpec],
        journal: Journal,
        on_change: Callable[[], object],
        leave_s: float = LEAVE_S,
    ) -> None:
        """Start nothing yet.

        :param subject: its name in the log: ``daemon/redis``.
        :param make_spec: called at each start.
        :param on_change: called when the program starts, and when it is gone.
        :param leave_s: from the request to leave to SIGKILL.
        """
        self._loop = loop
        self._subject = subject
        self._make_spec = make_spec
        self._journal = journal
        self._on_change = on_change
        self._leave_s = leave_s
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
        self._started(self._process)
        self._on_change()

    def try_to_start(self) -> None:
        """Start it, or try again later if that is not possible."""
        try:
            self.start()
        except OSError as error:
            self._failed(-1, f"cannot be started: {error.strerror}", None)

    def stop(self) -> None:
        """Ask it to leave."""
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
        """Ask it to leave, and kill it if it does not."""
        self._set_timer(self._leave_s, self.kill)
        if self._process:
            self._process.signal(signal.SIGTERM)

    def _printed(self, line: str) -> None:
        self._journal.line(self._subject, line)

    def _exited(self, exit_code: int) -> None:
        process, self._process = self._process, None
        assert process is not None
        self._set_timer(None)
        if self._is_renewing and not self._is_stopping:
            self._is_renewing = False
            self.try_to_start()
        elif not self._is_stopping:
            lived_s = monotonic() - process.started_at
            self._failed(exit_code, (process.tail or [""])[-1], lived_s)
        self._on_change()

    def _started(self, process: Process) -> None:
        self._journal.notice(notices.process_started(self._subject, process.pid))

    def _failed(self, exit_code: int, last_line: str, lived_s: float | None) -> None:
        """Report that it ended or cannot be started, and start it later.

        :param lived_s: ``None`` if it could not be started.
        """
        reason = last_line if lived_s is None else f"exited with {exit_code}"
        wait = self._backoff.failed(monotonic(), lived_s)
        self._journal.notice(notices.process_exited(self._subject, reason, lived_s, wait))
        self._set_timer(wait.delay_s, self.try_to_start)

    def _set_timer(
        self, delay_s: float | None, callback: Callable[[], object] = lambda: None
    ) -> None:
        """Replace the timer: one to start it, or one to kill it."""
        if self._timer:
            self._timer.cancel()
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, callback)

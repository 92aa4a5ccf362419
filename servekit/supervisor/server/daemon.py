# SPDX-License-Identifier: Apache-2.0
"""Programs that run beside the server, ``[[daemons]]``: started first, stopped last."""

import os
import signal
from collections.abc import Callable, Sequence
from time import monotonic

from servekit.errors import StartupError
from servekit.settings.daemons import DaemonSpec
from servekit.supervisor.os.backoff import Backoff
from servekit.supervisor.os.environment import prepare_environment
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.os.process import Process, ProcessSpec
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal

__all__ = ["Daemon", "Daemons"]

LEAVE_S = 5.0  #: from SIGTERM to SIGKILL


class Daemon:
    """Keeps one program running until it is stopped."""

    def __init__(
        self, loop: Loop, spec: DaemonSpec, journal: Journal, on_change: Callable[[], object]
    ) -> None:
        """Start nothing yet; *on_change* is called when it starts, and when it is gone."""
        self.spec = spec
        self._loop = loop
        self._subject = f"daemon/{spec.name}"
        self._journal = journal
        self._on_change = on_change
        self._backoff = Backoff()
        self._process: Process | None = None
        self._timer: Timer | None = None
        self._is_stopping = False

    @property
    def pid(self) -> int | None:
        """The pid, while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it.

        :raises OSError: it cannot be started.
        """
        command = ProcessSpec(
            arguments=self.spec.command,
            environment=prepare_environment(os.environ) | self.spec.env,
            directory=self.spec.directory,
        )
        self._process = Process(self._loop, command, self._printed, self._exited)
        self._journal.notice(notices.daemon_started(self._subject, self._process.pid))
        self._on_change()

    def stop(self) -> None:
        """Ask it to leave, and kill it when it does not."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._timer:
            self._timer.cancel()
        if self._process:
            self._process.signal(signal.SIGTERM)
            self._loop.call_later(LEAVE_S, self.kill)

    def kill(self) -> None:
        """Kill it with its children."""
        if self._process:
            self._process.kill()

    def _printed(self, line: str) -> None:
        self._journal.line(self._subject, line)

    def _exited(self, exit_code: int) -> None:
        process, self._process = self._process, None
        assert process is not None
        if not self._is_stopping:
            lived_s = monotonic() - process.started_at
            self._restart(f"exited with {exit_code}", lived_s)
        self._on_change()

    def _restart(self, reason: str, lived_s: float | None) -> None:
        wait = self._backoff.failed(monotonic(), lived_s)
        self._journal.notice(notices.daemon_exited(self._subject, reason, lived_s, wait))
        self._timer = self._loop.call_later(wait.delay_s, self._try_again)

    def _try_again(self) -> None:
        try:
            self.start()
        except OSError as error:
            self._restart(f"cannot be started: {error.strerror}", None)


class Daemons:
    """All of them."""

    def __init__(
        self,
        loop: Loop,
        specs: Sequence[DaemonSpec],
        journal: Journal,
        on_change: Callable[[], object],
    ) -> None:
        """Start nothing yet."""
        self._daemons = [Daemon(loop, spec, journal, on_change) for spec in specs]

    @property
    def pids(self) -> set[int]:
        """Those that run."""
        return {daemon.pid for daemon in self._daemons if daemon.pid is not None}

    @property
    def missing(self) -> list[str]:
        """The names of required ones that do not run."""
        return [d.spec.name for d in self._daemons if d.spec.required and d.pid is None]

    def start(self) -> None:
        """Start each in the order of the file; none is waited for.

        :raises StartupError: there is no such program, or it may not be run.
        """
        for daemon in self._daemons:
            try:
                daemon.start()
            except OSError as error:
                what = f"daemon {daemon.spec.name}: {daemon.spec.command[0]}"
                raise StartupError(f"{what}: {(error.strerror or '').lower()}") from error

    def stop(self) -> None:
        """Ask all to leave."""
        for daemon in self._daemons:
            daemon.stop()

    def kill(self) -> None:
        """Kill all."""
        for daemon in self._daemons:
            daemon.kill()

# SPDX-License-Identifier: Apache-2.0
"""The front-end as the supervisor sees it: one process (gunicorn), replaced when it dies."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import Process, ProcessSpec, python_module
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal
from servekit.supervisor.server.kept_process import KeptProcess

__all__ = ["FrontEndProcess", "front_end_command"]

TRIES = 3  #: before it was ever ready
BOOT_TIMEOUT_S = 60.0
MAX_WAIT_S = 5.0


def front_end_command(
    run_dir: Path,
    listeners: Sequence[int],
    manage: Sequence[int],
    counters: int,
    stdout: int | None,
) -> ProcessSpec:
    """Return how to start the front-end.

    :param listeners: descriptors of the listeners of predictions.
    :param manage: descriptors of the management listeners.
    :param counters: descriptor of the memory that its processes count in.
    :param stdout: where the access log goes, if it goes there.
    """
    environment = dict(os.environ)
    environment.pop("PROMETHEUS_MULTIPROC_DIR", None)  # it belongs to another program
    arguments = python_module(
        "servekit.frontend",
        *("--run-dir", str(run_dir)),
        *("--listener", *map(str, listeners)),
        *("--manage", *map(str, manage)),
        *("--counters", str(counters)),
        *("--parent", str(os.getpid())),
    )
    inherited = (*listeners, *manage, counters)
    if stdout is not None:
        arguments += ["--stdout", str(stdout)]
        inherited += (stdout,)
    return ProcessSpec(arguments=arguments, environment=environment, inherited=inherited)


class FrontEndProcess(KeptProcess):
    """Keeps the front-end running; it ends the server if it cannot be started at all."""

    def __init__(
        self,
        loop: Loop,
        spec: ProcessSpec,
        journal: Journal,
        on_change: Callable[[], object],
        on_unable: Callable[[str], object],
    ) -> None:
        """Start nothing yet. *on_unable* gets the last line of one that never gets ready."""
        super().__init__(loop, "front-end", lambda: spec, journal, on_change)
        self._on_unable = on_unable
        self._ready_at: float | None = None
        self._failed_boots = 0
        self._has_served = False

    @property
    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        return self._ready_at is not None

    def set_ready(self, is_ready: bool) -> None:
        """Note that enough of its processes are ready, or not any more."""
        if is_ready and not self.is_ready:
            self._set_timer(None)
            self._ready_at = monotonic()
            self._has_served = True

    def renew(self) -> None:
        """Ask it to replace its processes, unless it is starting."""
        if self._process and self.is_ready and not self._is_stopping:
            self._process.signal(signal.SIGHUP)

    def _leave(self) -> None:
        """Ask it to finish the requests in flight and exit; the shutdown kills it."""
        self._set_timer(None)
        if self._process:
            self._process.signal(signal.SIGTERM)
        else:
            self._on_change()

    def _started(self, _process: Process) -> None:
        self._set_timer(BOOT_TIMEOUT_S, self.kill)

    def _failed(self, exit_code: int, last_line: str, lived_s: float | None) -> None:
        wait = self._judge(exit_code)
        self._ready_at = None
        is_hopeless = exit_code == os.EX_CONFIG or self._failed_boots >= TRIES
        if is_hopeless and not self._has_served:
            self._on_unable(last_line or f"exited with {exit_code}")
            return
        wait = Wait(min(wait.delay_s, MAX_WAIT_S))  # without it nothing is served at all
        self._journal.notice(notices.front_end_exited(exit_code, lived_s or 0.0, wait))
        self._set_timer(wait.delay_s, self.try_to_start)

    def _judge(self, exit_code: int) -> Wait:
        now = monotonic()
        if self._ready_at is None:
            self._failed_boots += 1
            return self._backoff.failed(now, None)
        if exit_code == -signal.SIGKILL:
            return self._backoff.killed(now)
        return self._backoff.failed(now, now - self._ready_at)

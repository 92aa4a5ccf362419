# SPDX-License-Identifier: Apache-2.0
"""The front-end as the supervisor sees it: one process (gunicorn), replaced when it dies."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from servekit.supervisor.os.backoff import Backoff, Wait
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.os.process import Process, ProcessSpec, python_module
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal

__all__ = ["FrontEndProcess", "front_end_command"]

TRIES = 3  #: before it was ever ready
BOOT_TIMEOUT_S = 60.0
MAX_WAIT_S = 5.0


def front_end_command(
    run_dir: Path, listener: int, manage: Sequence[int], counters: int, stdout: int | None
) -> ProcessSpec:
    """Return how to start the front-end.

    :param manage: descriptors of the management listeners.
    :param counters: descriptor of the memory that its processes count in.
    :param stdout: where the access log goes, if it goes there.
    """
    environment = dict(os.environ)
    environment.pop("PROMETHEUS_MULTIPROC_DIR", None)  # it belongs to another program
    arguments = python_module(
        "servekit.frontend",
        *("--run-dir", str(run_dir)),
        *("--listener", str(listener)),
        *("--manage", *map(str, manage)),
        *("--counters", str(counters)),
        *("--parent", str(os.getpid())),
    )
    inherited = (listener, *manage, counters)
    if stdout is not None:
        arguments += ["--stdout", str(stdout)]
        inherited += (stdout,)
    return ProcessSpec(arguments=arguments, environment=environment, inherited=inherited)


class FrontEndProcess:
    """Keeps one front-end running until it is stopped."""

    def __init__(
        self,
        loop: Loop,
        command: ProcessSpec,
        journal: Journal,
        on_gone: Callable[[], object],
        on_unable: Callable[[str], object],
    ) -> None:
        """Start nothing yet.

        :param on_gone: called when it has been stopped.
        :param on_unable: gets the last line of its output if it cannot be started at all.
        """
        self._loop = loop
        self._command = command
        self._journal = journal
        self._on_gone = on_gone
        self._on_unable = on_unable
        self._backoff = Backoff()
        self._process: Process | None = None
        self._timer: Timer | None = None
        self._ready_at: float | None = None
        self._failed_boots = 0
        self._has_served = False
        self._is_stopping = False

    @property
    def pid(self) -> int | None:
        """The pid, while it runs."""
        return self._process.pid if self._process else None

    @property
    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        return self._ready_at is not None

    def start(self) -> None:
        """Start it; ``set_ready`` is called when it is ready."""
        try:
            self._process = Process(self._loop, self._command, self._printed, self._exited)
        except OSError as error:
            self._failed(-1, 0.0, f"cannot be started: {error.strerror}")
            return
        self._set_timer(BOOT_TIMEOUT_S, self.kill)

    def set_ready(self, is_ready: bool) -> None:
        """Note that enough front-end processes are ready, or not any more."""
        if is_ready and not self.is_ready:
            self._set_timer(None)
            self._ready_at = monotonic()
            self._has_served = True

    def stop(self) -> None:
        """Ask it to finish the requests in flight and exit."""
        self._is_stopping = True
        self._set_timer(None)
        if self._process:
            self._process.signal(signal.SIGTERM)
        else:
            self._on_gone()

    def renew(self) -> None:
        """Ask it to replace its processes, unless it is starting."""
        if self._process and self.is_ready and not self._is_stopping:
            self._process.signal(signal.SIGHUP)

    def kill(self) -> None:
        """Kill it with its children."""
        if self._process:
            self._process.kill()

    def _printed(self, line: str) -> None:
        self._journal.line("front-end", line)

    def _exited(self, exit_code: int) -> None:
        process, self._process = self._process, None
        self._set_timer(None)
        if self._is_stopping:
            self._on_gone()
        elif process is not None:
            lived_s = monotonic() - process.started_at
            self._failed(exit_code, lived_s, (process.tail or [f"exited with {exit_code}"])[-1])

    def _failed(self, exit_code: int, lived_s: float, last_line: str) -> None:
        wait = self._judge(exit_code)
        self._ready_at = None
        is_hopeless = exit_code == os.EX_CONFIG or self._failed_boots >= TRIES
        if is_hopeless and not self._has_served:
            self._on_unable(last_line)
            return
        wait = Wait(min(wait.delay_s, MAX_WAIT_S))  # without it nothing is served at all
        self._journal.notice(notices.front_end_exited(exit_code, lived_s, wait))
        self._set_timer(wait.delay_s, self.start)

    def _judge(self, exit_code: int) -> Wait:
        now = monotonic()
        if self._ready_at is None:
            self._failed_boots += 1
            return self._backoff.failed(now, None)
        if exit_code == -signal.SIGKILL:
            return self._backoff.killed(now)
        return self._backoff.failed(now, now - self._ready_at)

    def _set_timer(
        self, delay_s: float | None, callback: Callable[[], object] = lambda: None
    ) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, callback)

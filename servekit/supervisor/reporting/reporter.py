# SPDX-License-Identifier: Apache-2.0
"""Passes on what happens to the log, the crash reports, the counters and the observer."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Protocol

from msgspec import structs

from servekit.extension.events import LifeEvent, WorkerExited, WorkerReady
from servekit.ipc.control import Lost
from servekit.ipc.kept_log import LogEntry, LogWriter
from servekit.ipc.tally import Tally
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.crash_log import CrashLog
from servekit.supervisor.reporting.journal import Notice
from servekit.supervisor.reporting.log import Log
from servekit.supervisor.reporting.records import TRACEBACK

__all__ = ["EventSink", "Reporter"]

LOST_WAIT_S = 0.25  #: from the end of a worker to the last report of what it held


class EventSink(Protocol):
    """Takes life events and log lines; must not block."""

    def event(self, event: LifeEvent) -> None:
        """Pass *event* on."""

    def log(self, notice: Notice) -> None:
        """Pass one record of the log on."""


class Reporter:
    """Where the parts of the supervisor report what happens."""

    def __init__(
        self,
        log: Log,
        run_dir: Path,
        sinks: Sequence[EventSink],
        call_later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        """Write crash reports below *run_dir*, and keep the last records of *log* there.

        :param sinks: get every event and every record of the log.
        """
        self._sinks = sinks
        self._call_later = call_later
        self._crashes = CrashLog(run_dir, log)
        self._kept = LogWriter(run_dir)
        self.tally = Tally(time())
        self.attach = log.attach
        self.progress = log.progress
        self.notice = log.notice
        self.line = log.line
        log.takers += [self._keep, *(sink.log for sink in sinks)]

    def event(self, event: LifeEvent) -> None:
        """Pass on an event that has no line in the log."""
        for sink in self._sinks:
            sink.event(event)

    def worker_ready(self, event: WorkerReady) -> None:
        """Report a worker that can answer."""
        self.progress(event.model, "")
        self.notice(notices.worker_ready(event))
        self.event(event)

    def worker_exited(self, event: WorkerExited) -> None:
        """Report a worker that is gone; it is a crash unless it was asked to stop."""
        if event.cause != "stopped":
            self.progress(event.model, "")
            self.notice(notices.worker_exited(event))
            self.tally.crashed(event.model, event.version, event.cause)
            self._crashes.worker_exited(event)
        may_hold_requests = event.cause != "stopped" and event.served_s is not None
        if may_hold_requests:  # wait for what the front-ends say of them
            self._call_later(LOST_WAIT_S, lambda: self._send_exit(event))
        else:
            self.event(event)

    def model_failed(self, model: str, reason: str) -> None:
        """Report an archive that cannot be loaded; the log says so elsewhere."""
        self.tally.crashed(model, "", "load_failed")
        self._crashes.model_failed(model, reason)

    def lost(self, lost: Lost) -> None:
        """Note the requests that a worker held when it ended."""
        self._crashes.lost(lost)

    def close(self) -> None:
        """Free the memory of the log."""
        self._kept.close()

    def _keep(self, record: Notice) -> None:
        """Keep one record for operators."""
        if record.level == "debug":
            return
        place = record.place
        entry = LogEntry(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            level=record.level,
            event=record.event,
            subject=record.subject,
            message=record.text,
            model=place.model,
            version=place.version,
            stage=place.stage,
            replica=place.replica,
            traceback=str(record.fields.get(TRACEBACK, "")),
        )
        self._kept.add(entry)

    def _send_exit(self, event: WorkerExited) -> None:
        found = self._crashes.request_ids((event.model, event.replica, event.generation))
        self.event(structs.replace(event, request_ids=found))

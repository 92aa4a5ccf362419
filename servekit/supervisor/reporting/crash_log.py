# SPDX-License-Identifier: Apache-2.0
"""Writes crash reports from the reports of the supervisor and of the front-ends."""

from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from servekit.extension.events import WorkerExited
from servekit.ipc import crash_reports
from servekit.ipc.control import Lost
from servekit.ipc.crash_reports import KEPT_REPORTS, CrashReport, HeldRequest
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["CrashLog", "Key"]

KEPT_EARLY = 8  #: workers whose requests are known before their end; there may be bodies
Key = tuple[str, int | None, int]  #: model, replica, generation


class CrashLog:
    """The newest crash reports of one server.

    Either may come first: a front-end sees that a channel is closed when we see that the process
    has ended.
    """

    def __init__(self, run_dir: Path, journal: Journal) -> None:
        """Write below *run_dir*; if that is not possible, log a warning."""
        self._run_dir = run_dir
        self._journal = journal
        self._count = 0
        self._numbers: dict[Key, int] = {}  #: numbers of the reports that are written
        self._request_ids: dict[Key, list[str]] = {}
        self._early: dict[Key, list[HeldRequest]] = {}  #: their worker has not ended yet

    def worker_exited(self, event: WorkerExited) -> None:
        """Report a worker that crashed, hung or was killed."""
        self._add(
            CrashReport(
                model=event.model,
                version=event.version,
                source=event.source,
                stage=event.stage,
                replica=event.replica,
                generation=event.generation,
                pid=event.pid,
                time=_now(),
                monotonic_s=monotonic(),
                exit_code=event.exit_code,
                signal=event.signal,
                cause=event.reason or f"exited with {event.exit_code}",
                lived_s=round(event.lived_s, 3),
                served_s=event.served_s and round(event.served_s, 3),
                restart_s=event.restart_s and round(event.restart_s, 3),
                has_given_up=event.has_given_up,
                last_lines=event.last_lines,
            )
        )

    def model_failed(self, model: str, reason: str) -> None:
        """Report an archive that cannot be prepared."""
        cause = "; ".join(reason.splitlines())
        self._add(CrashReport(model=model, time=_now(), monotonic_s=monotonic(), cause=cause))

    def lost(self, lost: Lost) -> None:
        """Add the requests that a front-end had sent to a worker that is gone."""
        key = (lost.model, lost.replica, lost.generation)
        ids = [request.request_id for request in lost.requests]
        self._request_ids.setdefault(key, []).extend(ids)
        _keep_newest(self._request_ids, KEPT_REPORTS)
        number = self._numbers.get(key)
        if number is None:
            self._early.setdefault(key, []).extend(lost.requests)
            _keep_newest(self._early, KEPT_EARLY)
            return
        try:
            report = crash_reports.read(self._run_dir, number)
            report.request_ids += ids
            report.requests += lost.requests
            crash_reports.write(self._run_dir, number, report)
        except OSError as error:
            self._complain(error)

    def request_ids(self, key: Key) -> list[str]:
        """Return the requests that the front-ends had sent to a worker that is gone."""
        return self._request_ids.get(key, [])

    def _add(self, report: CrashReport) -> None:
        key = (report.model, report.replica, report.generation)
        report.request_ids = self.request_ids(key)
        report.requests = self._early.pop(key, [])
        self._count += 1
        try:
            crash_reports.write(self._run_dir, self._count, report)
        except OSError as error:  # the disk is full: serving continues
            self._complain(error)
            return
        self._numbers[key] = self._count
        _keep_newest(self._numbers, KEPT_REPORTS)

    def _complain(self, error: OSError) -> None:
        text = f"a crash report cannot be written: {error.strerror}"
        self._journal.notice(Notice("no_crash_report", "servekit", text, "warning"))


def _keep_newest(table: dict[Key, Any], most: int) -> None:
    while len(table) > most:
        table.pop(next(iter(table)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

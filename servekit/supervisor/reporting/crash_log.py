# SPDX-License-Identifier: Apache-2.0
"""Writes the crash reports, and joins what supervisor and front-ends know of one crash."""

import signal
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from servekit.ipc import crash_reports as crashes
from servekit.ipc.control import Lost
from servekit.ipc.crash_reports import KEPT_REPORTS, CrashReport
from servekit.ipc.table import Tally
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.replicas.replica import Replica
from servekit.supervisor.replicas.worker import Exit
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["CrashLog"]

Key = tuple[str, int | None, int]  #: model, replica, generation


class CrashLog:
    """The newest reports of one server.

    A front-end sees that a channel is gone as soon as we see that the process is: whoever
    comes second adds what it knows to the report.
    """

    def __init__(self, run_dir: Path, journal: Journal, tally: Tally) -> None:
        """Write below *run_dir*; *journal* hears of it if that is not possible.

        :param tally: counts all of them.
        """
        self._tally = tally
        self._run_dir = run_dir
        self._journal = journal
        self._count = 0
        self._numbers: dict[Key, int] = {}  #: of the reports that are written
        self._early: dict[Key, list[str]] = {}  #: request ids whose report is not written yet

    def worker_exited(self, model: str, replica: Replica, ended: Exit, wait: Wait | None) -> None:
        """Report a worker that is gone, and when the next one comes, if any."""
        self._tally.crashed(model, ended.cause)
        self._add(
            CrashReport(
                model=model,
                stage=replica.stage,
                replica=replica.index,
                generation=replica.generation,
                pid=ended.pid,
                time=_now(),
                monotonic_s=monotonic(),
                exit_code=ended.exit_code,
                signal=_signal_name(ended.exit_code),
                cause=ended.reason or f"exited with {ended.exit_code}",
                lived_s=round(ended.lived_s, 3),
                served_s=None if ended.served_s is None else round(ended.served_s, 3),
                restart_s=None if wait is None else round(wait.delay_s, 3),
                has_given_up=wait is not None and wait.has_given_up,
                request_ids=[],
                last_lines=list(ended.last_lines),
            )
        )

    def model_failed(self, model: str, reason: str) -> None:
        """Report an archive that cannot be prepared."""
        self._tally.crashed(model, "load_failed")
        self._add(
            CrashReport(
                model=model,
                replica=None,
                generation=0,
                pid=None,
                time=_now(),
                monotonic_s=monotonic(),
                exit_code=None,
                signal="",
                cause="; ".join(reason.splitlines()),
                lived_s=0.0,
                served_s=None,
                restart_s=None,
                has_given_up=False,
                request_ids=[],
                last_lines=[],
            )
        )

    def lost(self, lost: Lost) -> None:
        """Add the requests that a front-end had given to a worker that is gone."""
        key = (lost.model, lost.replica, lost.generation)
        number = self._numbers.get(key)
        if number is None:
            self._early.setdefault(key, []).extend(lost.request_ids)
            _keep_newest(self._early)
            return
        try:
            report = crashes.read(self._run_dir, number)
            report.request_ids += lost.request_ids
            crashes.write(self._run_dir, number, report)
        except OSError as error:
            self._complain(error)

    def _add(self, report: CrashReport) -> None:
        key = (report.model, report.replica, report.generation)
        report.request_ids = self._early.pop(key, [])
        self._count += 1
        try:
            crashes.write(self._run_dir, self._count, report)
        except OSError as error:  # the disk is full: serving goes on
            self._complain(error)
            return
        self._numbers[key] = self._count
        _keep_newest(self._numbers)

    def _complain(self, error: OSError) -> None:
        text = f"a crash report cannot be written: {error.strerror}"
        self._journal.notice(Notice("no_crash_report", "servekit", text, "warning"))


def _keep_newest(table: dict[Key, int] | dict[Key, list[str]]) -> None:
    while len(table) > KEPT_REPORTS:
        table.pop(next(iter(table)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _signal_name(exit_code: int) -> str:
    try:
        return signal.Signals(-exit_code).name if exit_code < 0 else ""
    except ValueError:
        return f"signal {-exit_code}"

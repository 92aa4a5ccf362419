# SPDX-License-Identifier: Apache-2.0
"""Crash reports: the facts about a worker that ended unexpectedly.

The supervisor writes one JSON file for each into its run directory; the command line and
the management side read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEPT_REPORTS", "CrashReport", "read", "read_all", "write"]

FOLDER = "crashes"  #: in the run directory
KEPT_REPORTS = 100


class CrashReport(msgspec.Struct, kw_only=True):
    """One worker that crashed, hung, was killed or could not load; or a failed preparation."""

    model: str
    time: str  #: ISO 8601, UTC
    monotonic_s: float  #: the same moment on the clock that never jumps
    cause: str  #: likely
    replica: int | None = None  #: ``None``: its archive could not be prepared
    generation: int = 0
    pid: int | None = None  #: ``None``: it could not even be started
    exit_code: int | None = None
    signal: str = ""  #: ``SIGSEGV``, or "" if no signal ended it
    lived_s: float = 0.0
    served_s: float | None = None  #: ``None``: it was never ready
    restart_s: float | None = None  #: until the next worker is started; ``None``: none follows
    has_given_up: bool = False  #: it failed too often: one try now and then
    request_ids: list[str] = []  #: of the batch that it held
    last_lines: list[str] = []  #: of its stdout and stderr
    stage: str = ""  #: of the model; "" if it has no others


def write(run_dir: Path, number: int, report: CrashReport) -> None:
    """Write report *number* of this server, completely or not at all; the oldest is removed.

    :raises OSError: the disk is full, or the like.
    """
    folder = run_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    new = folder / "new"
    new.write_bytes(msgspec.json.encode(report))
    new.replace(_path(run_dir, number))
    _path(run_dir, number - KEPT_REPORTS).unlink(missing_ok=True)


def read(run_dir: Path, number: int) -> CrashReport:
    """Return report *number*.

    :raises OSError: it is not there.
    """
    return msgspec.json.decode(_path(run_dir, number).read_bytes(), type=CrashReport)


def read_all(run_dir: Path) -> list[CrashReport]:
    """Return every report of the server of *run_dir*, newest last."""
    numbers = sorted(int(path.stem) for path in (run_dir / FOLDER).glob("*.json"))
    reports = []
    for number in numbers:
        try:
            reports.append(read(run_dir, number))
        except FileNotFoundError:  # it made room for a newer one
            continue
    return reports


def _path(run_dir: Path, number: int) -> Path:
    return run_dir / FOLDER / f"{number:06d}.json"

# SPDX-License-Identifier: Apache-2.0
"""Crash reports: the facts about a worker that ended unexpectedly.

The supervisor writes one JSON file for each into its run directory; the command line and
the management side read them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KEPT_REPORTS", "CrashReport", "HeldRequest", "read", "read_all", "write"]

FOLDER = "crashes"  #: in the run directory
KEPT_REPORTS = 100


class HeldRequest(msgspec.Struct, kw_only=True):
    """A request that a worker had when it ended, with what it takes to send it again."""

    request_id: str
    method: str = ""  #: "" for a part of a request
    target: str = ""  #: path, and the query if bodies are kept
    headers: dict[
        str, str
    ] = {}  #: ``content-type`` and ``accept``; those of the service with bodies
    body_bytes: int = 0
    body: bytes | None = None  #: only with ``keep_bodies``, and up to its size


class CrashReport(msgspec.Struct, kw_only=True):
    """One worker that crashed, hung, was killed or could not load; or a failed preparation."""

    number: int = 0  #: from 1
    model: str
    version: str = ""  #: "": its archive could not be prepared
    source: str = ""  #: the path or URL of its archive, as the operator named it
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
    requests: list[HeldRequest] = []  #: the same requests
    last_lines: list[str] = []  #: of its stdout and stderr
    stage: str = ""  #: of the model; "" if it has no others


def write(run_dir: Path, number: int, report: CrashReport) -> None:
    """Write report *number* of this server, completely or not at all; the oldest is removed.

    Nobody else may read it: bodies of requests can be secrets.

    :raises OSError: the disk is full, or the like.
    """
    folder = run_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    new, report.number = folder / "new", number
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(report))
    new.replace(_path(run_dir, number))
    _path(run_dir, number - KEPT_REPORTS).unlink(missing_ok=True)


def read(run_dir: Path, number: int) -> CrashReport:
    """Return report *number*, with the bodies that were kept.

    :raises OSError: it is not there.
    """
    return msgspec.json.decode(_path(run_dir, number).read_bytes(), type=CrashReport)


def read_all(run_dir: Path) -> list[CrashReport]:
    """Return every report of the server of *run_dir* without bodies, newest last."""
    numbers = sorted(int(path.stem) for path in (run_dir / FOLDER).glob("*.json"))
    reports = []
    for number in numbers:
        try:
            report = read(run_dir, number)
        except FileNotFoundError:  # it made room for a newer one
            continue
        for request in report.requests:
            request.body = None
        reports.append(report)
    return reports


def _path(run_dir: Path, number: int) -> Path:
    return run_dir / FOLDER / f"{number:06d}.json"

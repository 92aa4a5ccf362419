# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin. If no file is named there are none, and there is no cost."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import (
        BatchServed,
        LogRecord,
        MetricFamily,
        ModelLoaded,
        ModelUnloaded,
        RequestTraced,
        ServerStarted,
        ServerStopping,
        WorkerExited,
        WorkerReady,
    )
    from servekit_journal.journal import JournalFile

__all__ = ["ALSO", "FILE", "SHARE"]

FILE = "JOURNAL_FILE"
ALSO = "JOURNAL_ALSO"
SHARE = "JOURNAL_TRACES"
_also = os.environ.get(ALSO, "").split() if os.environ.get(FILE) else []

if os.environ.get(FILE):

    @hookimpl
    def server_started(event: ServerStarted) -> None:
        """Write that the server accepts predictions."""
        _journal().write(event)

    @hookimpl
    def server_stopping(event: ServerStopping) -> None:
        """Write that the server stops, and why."""
        _journal().write(event)

    @hookimpl
    def model_loaded(event: ModelLoaded) -> None:
        """Write that a version serves."""
        _journal().write(event)

    @hookimpl
    def model_unloaded(event: ModelUnloaded) -> None:
        """Write that a version does not serve any more."""
        _journal().write(event)

    @hookimpl
    def worker_ready(event: WorkerReady) -> None:
        """Write that a worker can answer."""
        _journal().write(event)

    @hookimpl
    def worker_exited(event: WorkerExited) -> None:
        """Write that a worker ended, why, and what it held."""
        _journal().write(event)

    @hookimpl
    def batch_served(event: BatchServed) -> None:
        """Write a sample of the batches."""
        _journal().write(event)


if "traces" in _also:

    @hookimpl
    def request_traced(event: RequestTraced) -> None:
        """Write where the time of a request went."""
        _journal().write(event)

    if os.environ.get(SHARE):

        @hookimpl
        def trace_sampler() -> float:
            """Return the share of the requests to trace, which the variable names."""
            return float(os.environ[SHARE])


if "logs" in _also:

    @hookimpl
    def export_logs(records: Sequence[LogRecord]) -> None:
        """Write lines of the server's log."""
        _journal().write(*records)


if "metrics" in _also:

    @hookimpl
    def export_metrics(metrics: Sequence[MetricFamily]) -> None:
        """Write all metrics."""
        _journal().write_metrics(metrics)


@cache
def _journal() -> JournalFile:
    """Open the file, once in each observer: a SIGHUP starts a new one."""
    from servekit_journal.journal import JournalFile

    return JournalFile(os.environ[FILE])

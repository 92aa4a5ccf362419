# SPDX-License-Identifier: Apache-2.0
"""A file of JSON lines."""

import os
from collections.abc import Sequence
from time import time

import msgspec

from servekit.extension import LifeEvent, LogRecord, MetricFamily

__all__ = ["JournalFile"]


class JournalFile:
    """Appends one line for each event."""

    def __init__(self, path: str) -> None:
        """Open *path* to append; nobody else may read it if it is new.

        :raises OSError: it cannot be opened.
        """
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._encode = msgspec.json.Encoder().encode_lines

    def write(self, *events: LifeEvent | LogRecord) -> None:
        """Write *events*.

        :raises OSError: the disk is full; half a line may be left.
        """
        self._append(self._encode(events))

    def write_metrics(self, metrics: Sequence[MetricFamily]) -> None:
        """Write all samples on one line.

        :raises OSError: as ``write``.
        """
        samples = [sample for metric in metrics for sample in metric.samples]
        self._append(self._encode([{"event": "metrics", "time_s": time(), "samples": samples}]))

    def _append(self, lines: bytes) -> None:
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

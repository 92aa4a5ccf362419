# SPDX-License-Identifier: Apache-2.0
"""The log of the server in a file that is rotated by time. Runs in: observer."""

from __future__ import annotations

import logging
import re
from logging.handlers import TimedRotatingFileHandler
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servekit.extension import LogRecord

__all__ = ["LEVELS", "LogFile", "rotation_of"]

#: the levels of MMS to those of servekit
LEVELS: Final = {
    "CRITICAL": "error",
    "ERROR": "error",
    "WARNING": "warning",
    "INFO": "info",
    "DEBUG": "debug",
    "NOTSET": "debug",
}
WHENS: Final = ("S", "M", "H", "D", "MIDNIGHT", *(f"W{day}" for day in range(7)))
INTERVAL: Final = re.compile(r"(?:([1-9][0-9]{0,5})\s+)?([A-Za-z][A-Za-z0-9]*)")


def rotation_of(text: str) -> tuple[int, str]:
    """Return the interval and the unit of ``1 H``; ``midnight`` and ``W0`` need no number.

    :raises ValueError: it is something else.
    """
    found = INTERVAL.fullmatch(text.strip())
    if found is None or found[2].upper() not in WHENS:
        raise ValueError(f"{text!r} is not an interval such as '1 H', '30 M', 'midnight' or 'W0'")
    return int(found[1] or 1), found[2].upper()


class LogFile:
    """Writes lines of the server's log."""

    def __init__(self, path: Path, rotation: str, level: str) -> None:
        """Open *path* to append.

        :param rotation: as ``rotation_of`` takes it.
        :param level: of servekit; lines below it are left out.
        :raises OSError: it cannot be opened.
        """
        interval, when = rotation_of(rotation)
        #: for lines of the observer itself, which the log of the server does not contain
        self.handler = TimedRotatingFileHandler(path, when, interval, encoding="utf-8")
        self.handler.setFormatter(
            logging.Formatter("%(asctime)s [%(levelname)s] %(name)s: %(message)s")
        )
        self._lowest = logging.getLevelNamesMapping()[level.upper()]

    def write(self, records: Sequence[LogRecord]) -> None:
        """Write *records*, and begin a new file when it is time."""
        known = logging.getLevelNamesMapping()
        for record in records:
            level = known.get(record.level.upper(), logging.INFO)
            if level < self._lowest:
                continue
            text = f"{record.subject} {record.fields.get('traceback') or record.text}".strip()
            line = logging.LogRecord(record.name, level, "", 0, text, None, None)
            line.created = record.time_s
            self.handler.emit(line)

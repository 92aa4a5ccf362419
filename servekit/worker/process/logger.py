# SPDX-License-Identifier: Apache-2.0
"""``context.logger``: lines on stderr, of JSON where the server's log is."""

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from servekit.worker.process.log import json_line, say, use_json

__all__ = ["LineHandler", "attach"]

#: what every record has; anything else came with ``extra``
KNOWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
LEVELS = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}
SHOWN = 1000  #: characters of a message; with a traceback a line still fits what a log takes
SHOWN_TRACEBACK = 2000
SHOWN_IDS = 32


def attach(
    name: str, level: str, *, is_json: bool, current_ids: Callable[[], Sequence[str]]
) -> None:
    """Have the logger *name* write from *level* on, and hand nothing to loggers above it.

    :param current_ids: returns the ids of the requests that ``predict`` has now.
    """
    logger = logging.getLogger(name)
    logger.setLevel(level.upper())
    logger.addHandler(LineHandler(current_ids) if is_json else PlainHandler())
    if is_json:
        use_json()
    logger.propagate = False


class PlainHandler(logging.Handler):
    """``warning: no weights for class 3``."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*, and its traceback below it."""
        say(f"{_level(record)}: {self.format(record)}\n")


class LineHandler(logging.Handler):
    """One JSON object for each record; the supervisor adds who it was and when."""

    def __init__(self, current_ids: Callable[[], Sequence[str]]) -> None:
        """See ``attach``."""
        super().__init__()
        self._current_ids = current_ids

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*; a ``request_id`` of its own is its only one."""
        own = {key: value for key, value in vars(record).items() if key not in KNOWN}
        line: dict[str, Any] = {"level": _level(record), "message": _message(record)[:SHOWN]}
        if "request_id" not in own and (ids := self._current_ids()):
            line["request_ids"] = ids[:SHOWN_IDS]
        if record.exc_info:
            text = "".join(traceback.format_exception(*record.exc_info))
            line["traceback"] = text[-SHOWN_TRACEBACK:]
        say(json_line(line | own))


def _level(record: logging.LogRecord) -> str:
    return LEVELS[max(10, min(50, record.levelno // 10 * 10))]


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return f"{record.msg} {record.args}"  # the arguments do not fit

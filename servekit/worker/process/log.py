# SPDX-License-Identifier: Apache-2.0
"""Writes failures and ``context.logger`` to stderr, which the supervisor reads.

Lines are plain text, or JSON objects where the log of the server is JSON.
"""

import json
import logging
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from servekit.errors import StartupError
from servekit.ipc.control import BootFailed
from servekit.worker.process.tracebacks import reason_of, traceback_text

__all__ = ["LineHandler", "attach", "boot_failed", "json_line", "report", "say"]

STDERR: Final = 2
SHOWN_IDS: Final = 32
#: the supervisor would cut a longer line of JSON
MAX_LINE_BYTES: Final = 4000
#: attributes that every record has; any other came with ``extra``
KNOWN: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
LEVELS: Final = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "error"}
MESSAGE_CHARS: Final = 1000  #: a line with a traceback still fits the log
SHOWN_TRACEBACK: Final = 2000


class Current(Protocol):
    """The requests that ``predict`` has now."""

    def ids(self) -> list[str]:
        """Return their ids."""

    def trace_ids(self) -> list[str]:
        """Return the traces that they belong to."""


_is_json = False
_current: Callable[[], Current | None] = lambda: None  # noqa: E731 - until a service is loaded


def say(text: str) -> None:
    """Write all of *text*, even if the service has replaced ``sys.stderr``."""
    rest = memoryview(text.encode("utf-8", "replace"))
    try:
        while rest:
            rest = rest[os.write(STDERR, rest) :]
    except OSError:
        return  # the service closed it


def report(heading: str, error: BaseException | None, request_ids: Sequence[str] = ()) -> None:
    """Log what happened, to which requests, and the traceback of *error* if there is one."""
    text = "" if error is None else traceback_text(error)
    traces = _trace_ids()
    if _is_json:
        ids = {"request_ids": list(request_ids[:SHOWN_IDS])} if request_ids else {}
        told: dict[str, Any] = {"trace_ids": traces} if traces else {}
        told |= {"traceback": text} if text else {}
        last = ("", *text.rstrip().splitlines())[-1]
        say(json_line({"level": "error", "message": heading or last, **ids, **told}))
    else:
        more = ", ..." if len(request_ids) > SHOWN_IDS else ""
        shown = f"{len(request_ids)} request(s): {', '.join(request_ids[:SHOWN_IDS])}{more}"
        whose = f" for {shown}" if request_ids else ""
        whose += f" (trace {', '.join(traces)})" if traces else ""
        say(f"{heading}{whose}\n{text}" if heading else text)


def _trace_ids() -> list[str]:
    found = _current()
    return found.trace_ids()[:SHOWN_IDS] if found is not None else []


def boot_failed(error: BaseException, directory: str) -> BootFailed:
    """Log the *error* that ended a boot, and return the message to the supervisor."""
    if cause := error.__cause__ if isinstance(error, StartupError) else error:
        report("", cause)
    return BootFailed(reason_of(error, directory))


def json_line(record: dict[str, Any]) -> str:
    """Return *record* as a line of JSON; its longest members are cut until it is short enough."""
    while len(line := json.dumps(record, default=str)) > MAX_LINE_BYTES:
        longest = max(record, key=lambda name: len(json.dumps(record[name], default=str)))
        record[longest] = _shortened(longest, record[longest])
    return line + "\n"


def _shortened(name: str, value: Any) -> Any:
    """Return a part of *value*; of a traceback the end, which says more."""
    if isinstance(value, list):
        return value[: len(value) // 2]
    text = value if isinstance(value, str) else str(value)
    size = len(text) * 3 // 4
    return text[-size:] if name == "traceback" else text[:size]


# ------------------------------------------------------------ context.logger


def attach(name: str, level: str, *, is_json: bool, current: Callable[[], Current | None]) -> None:
    """Make the logger *name* write records of *level* and above, and pass none to other loggers.

    :param is_json: failures are reported as lines of JSON, too.
    :param current: returns the requests that ``predict`` has now, if it has any.
    """
    global _is_json, _current
    _is_json, _current = is_json, current
    logger = logging.getLogger(name)
    logger.setLevel(level.upper())
    logger.addHandler(LineHandler() if is_json else PlainHandler())
    logger.propagate = False


class PlainHandler(logging.Handler):
    """``warning: no weights for class 3``, and the traces of the requests, if they have any."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*, and its traceback below it."""
        traces = _trace_ids()
        text = f"trace {', '.join(traces)}: " if traces else ""
        say(f"{_level(record)}: {text}{self.format(record)}\n")


class LineHandler(logging.Handler):
    """One JSON object for each record; the supervisor adds the replica and the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*; if it has a ``request_id``, no other ids are added."""
        own = {key: value for key, value in vars(record).items() if key not in KNOWN}
        line: dict[str, Any] = {
            "level": _level(record),
            "message": _message(record)[:MESSAGE_CHARS],
        }
        if "request_id" not in own and (current := _current()) is not None:
            line["request_ids"] = current.ids()[:SHOWN_IDS]
        if traces := _trace_ids():
            line["trace_ids"] = traces
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

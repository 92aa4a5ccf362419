# SPDX-License-Identifier: Apache-2.0
"""``/logs`` of the management listener: the last lines of the log, and the next ones."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Final, NoReturn, Protocol

import msgspec
from flask import Flask, Response, request
from msgspec import Struct

from servekit.errors import RequestError
from servekit.ipc.kept_log import LOG_LEVELS, LogEntry, LogFilter
from servekit.web.errors import quoted
from servekit.web.requested import asked_number, asked_wait

__all__ = ["LogPage", "LoggedView", "add_logs"]

POLL_S: Final = 0.2  #: how often a waiting request looks for new lines
DEFAULT_LINES: Final = 100


class LoggedView(Protocol):
    """The front-end as a reader of the log."""

    @property
    def is_draining(self) -> bool:
        """Whether this front-end ends: nobody should wait for it."""
        ...

    @property
    def log_run(self) -> str:
        """A name of this run of the server."""
        ...

    def log_lines(self, after: int) -> tuple[list[LogEntry], int]:
        """Return the lines that are kept from the place *after* on, and the place behind them."""
        ...


class LogPage(Struct):
    """Some records of the log."""

    lines: Sequence[LogEntry]
    next: int  #: the value of ``after`` for those that follow, with this ``run``
    run: str  #: another one after a restart of the server, whose log is a new one


def add_logs(app: Flask, server: LoggedView) -> None:
    """Add ``/logs``."""

    def logs() -> Response:
        wanted, deadline = _asked_filter(), monotonic() + asked_wait()
        after, most = int(asked_number("after", 0)), int(asked_number("limit", DEFAULT_LINES))
        if request.args.get("run", server.log_run) != server.log_run:
            after = 0
        while True:
            lines, after = server.log_lines(after)
            found = [line for line in lines if wanted.takes(line)]
            if found or monotonic() >= deadline or server.is_draining:
                break
            time.sleep(POLL_S)  # gevent's: other requests are answered meanwhile
        page = LogPage(found[max(0, len(found) - most) :], after, server.log_run)
        return Response(msgspec.json.encode(page), mimetype="application/json")

    app.add_url_rule("/logs", "logs", logs)


def _asked_filter() -> LogFilter:
    """Return which records the client wants.

    :raises RequestError: there is no such level, or ``since`` is not a time.
    """
    level, since = request.args.get("level", "debug"), request.args.get("since", "")
    if level not in LOG_LEVELS:
        _refuse("level", f"{quoted(level)} is not one of {', '.join(LOG_LEVELS)}")
    try:
        earliest = datetime.fromisoformat(since).astimezone(UTC) if since else None
    except (ValueError, OverflowError):  # the second: a year that UTC does not have
        _refuse("since", f"{quoted(since)} is not a time such as 2026-11-21T10:02:48Z")
    shown = "" if earliest is None else earliest.isoformat(timespec="milliseconds")
    return LogFilter(request.args.get("model", ""), level, shown)


def _refuse(name: str, message: str) -> NoReturn:
    raise RequestError(f"{name}: {message}", [{"field": name, "message": message}])

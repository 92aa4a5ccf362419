# SPDX-License-Identifier: Apache-2.0
"""``/logs`` of the management listener: the last lines of the log, and the next ones."""

import time
from collections.abc import Sequence
from time import monotonic
from typing import Final, Protocol

import msgspec
from flask import Flask, Response, request
from msgspec import Struct

from servekit.ipc.kept_log import LogEntry
from servekit.web.requested import asked_number, asked_wait

__all__ = ["LogPage", "LoggedView", "add_logs"]

LOOK_S: Final = 0.2  #: how often a waiting request looks for new lines
DEFAULT_LINES: Final = 100


class LoggedView(Protocol):
    """The front-end as a reader of the log."""

    @property
    def is_draining(self) -> bool:
        """Whether this front-end ends: nobody should wait for it."""
        ...

    def log_lines(self, after: int) -> tuple[list[LogEntry], int]:
        """Return the lines that are kept from the place *after* on, and the place behind them."""
        ...


class LogPage(Struct):
    """Some lines of the log."""

    lines: Sequence[LogEntry]
    next: int  #: the value of ``after`` for the lines that follow


def add_logs(app: Flask, server: LoggedView) -> None:
    """Add ``/logs``."""

    def logs() -> Response:
        model, after = request.args.get("model", ""), int(asked_number("after", 0))
        most, deadline = int(asked_number("limit", DEFAULT_LINES)), monotonic() + asked_wait()
        while True:
            lines, after = server.log_lines(after)
            found = [line for line in lines if not model or _is_about(line, model)]
            if found or monotonic() >= deadline or server.is_draining:
                break
            time.sleep(LOOK_S)  # gevent's: other requests are answered meanwhile
        page = LogPage(found[max(0, len(found) - most) :], after)
        return Response(msgspec.json.encode(page), mimetype="application/json")

    app.add_url_rule("/logs", "logs", logs)


def _is_about(line: LogEntry, model: str) -> bool:
    return line.subject == model or line.subject.startswith(f"{model}/")

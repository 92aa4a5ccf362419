# SPDX-License-Identifier: Apache-2.0
"""How the journal of the supervisor is shown: plain lines, JSON lines, or a live terminal."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from servekit.cli.output.nonblocking_writer import Outlet
from servekit.cli.output.tracebacks import WAIT_S, Tracebacks
from servekit.settings import Settings
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["Display", "JsonDisplay", "PlainDisplay", "create_display"]

STDOUT, STDERR = 1, 2
LEVELS = ("debug", "info", "warning", "error")
RESULT = "serving"  #: the one notice that scripts want: it goes to stdout
RESERVED = ("time", "event", "subject", "model", "replica")
SILENT_STEPS = ("", "preparing", "waiting")


class Display(Journal, Protocol):
    """A journal that can be ended."""

    def close(self) -> None:
        """Show what waits."""


def create_display(settings: Settings) -> Display:
    """Return the display for *settings* and for what stderr is."""
    level = LEVELS.index(settings.log_level)
    if settings.log_format == "json":
        return JsonDisplay(level)
    if os.isatty(STDERR) and os.environ.get("TERM") != "dumb":
        from servekit.cli.output.terminal import TerminalDisplay

        return TerminalDisplay(level, has_colour="NO_COLOR" not in os.environ)
    return PlainDisplay(level)


class PlainDisplay:
    """One line per event on stderr; the URLs on stdout."""

    def __init__(self, level: int = 1, *, stdout: int = STDOUT, stderr: int = STDERR) -> None:
        """Leave out notices below *level*."""
        self._level = level
        self._results = Outlet(stdout)
        self._lines = Outlet(stderr)
        self._steps: dict[str, str] = {}

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the clock of the event loop."""
        self._results.call_later = self._lines.call_later = call_later

    def notice(self, notice: Notice) -> None:
        """Show one moment."""
        if LEVELS.index(notice.level) >= self._level or notice.event == RESULT:
            self._show(notice)

    def line(self, subject: str, line: str) -> None:
        """Show one line of a child."""
        self._lines.write(f"{subject} | {line}\n")

    def progress(self, subject: str, text: str) -> None:
        """Show each step once; how far it is would fill a log."""
        step = text.partition(" ")[0]
        if step not in (self._steps.get(subject), *SILENT_STEPS):
            self.notice(Notice("progress", subject, step))
        self._steps[subject] = step

    def close(self) -> None:
        """Show what waits."""
        self._results.close()
        self._lines.close()

    def _show(self, notice: Notice) -> None:
        outlet = self._results if notice.event == RESULT else self._lines
        outlet.write(f"{notice.subject} {notice.text}\n")


class JsonDisplay(PlainDisplay):
    """One JSON object per line; a traceback that a child prints is one, too."""

    def __init__(self, level: int = 1, *, stdout: int = STDOUT, stderr: int = STDERR) -> None:
        """Leave out notices below *level*."""
        super().__init__(level, stdout=stdout, stderr=stderr)
        self._tracebacks = Tracebacks(self._show_traceback, self._show_line)
        self._will_flush = False

    def notice(self, notice: Notice) -> None:
        """Show one moment, after what was printed before it."""
        self._tracebacks.flush()
        super().notice(notice)

    def line(self, subject: str, line: str) -> None:
        """Show one line of a child, or keep it until its traceback is whole."""
        if not self._tracebacks.take(subject, line):
            self._show_line(subject, line)
        elif self._lines.call_later and not self._will_flush:
            self._will_flush = True
            self._lines.call_later(WAIT_S, self._flush)

    def close(self) -> None:
        """Show what waits."""
        self._tracebacks.flush()
        super().close()

    def _flush(self) -> None:
        self._will_flush = False
        self._tracebacks.flush()

    def _show_traceback(self, subject: str, title: str, text: str) -> None:
        self._show(Notice("output", subject, title, "error", _who(subject) | {"traceback": text}))

    def _show_line(self, subject: str, line: str) -> None:
        """Show a line that stands for itself; the front-end writes JSON."""
        if subject == "front-end" and line.startswith("{") and line.endswith("}"):
            self._lines.write(f"{line}\n")
        else:
            self._show(_logged(subject, line) or Notice("output", subject, line))

    def _show(self, notice: Notice) -> None:
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": notice.level,
            "event": notice.event,
            "subject": notice.subject,
            "message": notice.text,
            **notice.fields,
        }
        outlet = self._results if notice.event == RESULT else self._lines
        outlet.write(json.dumps(record, separators=(",", ":")) + "\n")


def _logged(subject: str, line: str) -> Notice | None:
    """Return what a child says in JSON, or ``None`` if it is something else.

    Its level and its words are its own; who it is and what it may call an event are not.
    """
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    level, message = record.pop("level", None), record.pop("message", None)
    if level not in LEVELS or not isinstance(message, str):
        return None
    own = {key: value for key, value in record.items() if key not in RESERVED}
    return Notice("log", subject, message, level, _who(subject) | own)


def _who(subject: str) -> dict[str, Any]:
    model, _, replica = subject.rpartition("/")
    return {"model": model, "replica": int(replica)} if replica.isdecimal() else {}

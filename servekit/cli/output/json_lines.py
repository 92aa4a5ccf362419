# SPDX-License-Identifier: Apache-2.0
"""Shows the journal of the supervisor as JSON lines; a traceback is one of them, not thirty."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from servekit.cli.output.plain import LEVELS, STDERR, STDOUT, PlainDisplay
from servekit.supervisor.reporting.journal import Notice

__all__ = ["JsonDisplay"]

RESERVED: Final = ("time", "event", "subject", "model", "replica")
BEGINS: Final = re.compile(
    r"(?:[ +|]*(?:Exception Group )?Traceback \(most recent call last\):"
    r"|Exception in thread .*:|Exception ignored in: .*)"
)
CHAINS: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
MAX_LINES: Final = 500
#: the lines of a traceback arrive together; the next line ends it, or this much silence
SILENCE_S: Final = 0.2

#: called with a subject, the line that says what was raised, and all lines
Emit = Callable[[str, str, str], object]
#: called with a subject and a line that is not part of a traceback
EmitLine = Callable[[str, str], object]


@dataclass
class _Open:
    """A traceback that is not complete yet."""

    lines: list[str] = field(default_factory=list)
    title: str = ""  #: the last line, once it is known
    blanks: int = 0  #: empty lines after it: another traceback may follow

    @property
    def is_group(self) -> bool:
        """Whether it belongs to an exception group, whose lines are all indented."""
        return self.lines[0].startswith(" ")

    @property
    def shown_title(self) -> str:
        """The line that says what was raised, as far as it is known."""
        own = (line[4:] for line in self.lines if line.startswith("  | ") and line[4:5].strip())
        return self.title or next(own, self.lines[-1].strip())


class Tracebacks:
    """Joins the lines of tracebacks, by subject."""

    def __init__(self, emit: Emit, emit_line: EmitLine) -> None:
        """Pass complete tracebacks to *emit*, and other lines to *emit_line*."""
        self._emit, self._emit_line = emit, emit_line
        self._open: dict[str, _Open] = {}

    def take(self, subject: str, line: str) -> bool:
        """Return whether *line* belongs to a traceback; it is then kept."""
        found = self._open.get(subject)
        if found is None:
            if not BEGINS.fullmatch(line):
                return False
            self._open[subject] = _Open([line])
            return True
        if not self._continues(found, line) or len(found.lines) >= MAX_LINES:
            self.flush(subject)
            return self.take(subject, line)
        return True

    def _continues(self, found: _Open, line: str) -> bool:
        if not line:
            found.blanks += 1
            return True
        if found.title:
            if not (found.blanks and line in CHAINS):
                return False
            found.title = ""
        elif not line[0].isspace() and not BEGINS.fullmatch(line) and line not in CHAINS:
            if found.is_group:
                return False
            found.title = line
        found.lines += [""] * found.blanks + [line]
        found.blanks = 0
        return True

    def flush(self, subject: str = "") -> None:
        """Emit the traceback of *subject*, or all."""
        for name in [subject] if subject else list(self._open):
            found = self._open.pop(name, None)
            if found is not None:
                self._emit(name, found.shown_title, "\n".join(found.lines) + "\n")
                for _ in range(found.blanks):
                    self._emit_line(name, "")


class JsonDisplay(PlainDisplay):
    """One JSON object per line, and one for each traceback that a child prints."""

    def __init__(self, level: int = 1, *, stdout: int = STDOUT, stderr: int = STDERR) -> None:
        """Leave out notices below *level*."""
        super().__init__(level, stdout=stdout, stderr=stderr)
        self._tracebacks = Tracebacks(self._show_traceback, self._show_line)
        self._will_flush = False

    def notice(self, notice: Notice) -> None:
        """Show one event, after what was printed before it."""
        self._tracebacks.flush()
        super().notice(notice)

    def line(self, subject: str, line: str) -> None:
        """Show one line of a child, or keep it until its traceback is complete."""
        if not self._tracebacks.take(subject, line):
            self._show_line(subject, line)
        elif self._lines.call_later and not self._will_flush:
            self._will_flush = True
            self._lines.call_later(SILENCE_S, self._flush)

    def close(self) -> None:
        """Write what is still waiting."""
        self._tracebacks.flush()
        super().close()

    def _flush(self) -> None:
        self._will_flush = False
        self._tracebacks.flush()

    def _show_traceback(self, subject: str, title: str, text: str) -> None:
        self._show(
            Notice(
                "output", subject, title, "error", _replica_fields(subject) | {"traceback": text}
            )
        )

    def _show_line(self, subject: str, line: str) -> None:
        """Show a line that is not part of a traceback; the front-end writes JSON."""
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
        self._writer(notice).write(json.dumps(record, separators=(",", ":")) + "\n")


def _logged(subject: str, line: str) -> Notice | None:
    """Return the log record that a child wrote as JSON, or ``None`` if *line* is not one.

    The child decides its level and its message, but not its subject and its event.
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
    extra = {key: value for key, value in record.items() if key not in RESERVED}
    return Notice("log", subject, message, level, _replica_fields(subject) | extra)


def _replica_fields(subject: str) -> dict[str, Any]:
    model, _, replica = subject.rpartition("/")
    return {"model": model, "replica": int(replica)} if replica.isdecimal() else {}

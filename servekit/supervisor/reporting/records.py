# SPDX-License-Identifier: Apache-2.0
"""The output of processes as records: one for each line, and one for each traceback."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from servekit.ipc.kept_log import LOG_LEVELS
from servekit.supervisor.reporting.journal import SERVER, LogPlace, Notice

__all__ = ["TRACEBACK", "Records"]

TRACEBACK: Final = "traceback"  #: the field of a record that has all its lines
RESERVED: Final = ("time", "event", "subject", "model", "version", "stage", "replica")
#: the lines of ``context.logger`` where the log of the server is text
LEVELED: Final = re.compile(r"(debug|info|warning|error): ")
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
ESCAPED_SURROGATE: Final = "\\ud"
MAX_INTEGER: Final = 2**63 - 1


@dataclass
class _Open:
    """A traceback that is not complete yet."""

    place: LogPlace
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

    def continues(self, line: str) -> bool:
        """Whether *line* belongs to it; it is then added."""
        if not line:
            self.blanks += 1
            return True
        if self.title:
            if not (self.blanks and line in CHAINS):
                return False
            self.title = ""
        elif not line[0].isspace() and not BEGINS.fullmatch(line) and line not in CHAINS:
            if self.is_group:
                return False
            self.title = line
        self.lines += [""] * self.blanks + [line]
        self.blanks = 0
        return True


class Records:
    """Joins the lines of tracebacks, by subject, and passes on everything else at once."""

    def __init__(self, emit: Callable[[Notice], object]) -> None:
        """Pass records to *emit*."""
        self._emit = emit
        self._open: dict[str, _Open] = {}
        self._call_later: Callable[[float, Callable[[], object]], object] | None = None
        self._will_flush = False

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the timers of the event loop to notice the end of a traceback."""
        self._call_later = call_later

    def line(self, subject: str, line: str, place: LogPlace = SERVER) -> None:
        """Take one line of a child, and keep it if it belongs to a traceback."""
        found = self._open.get(subject)
        if found and len(found.lines) < MAX_LINES and found.continues(line):
            return
        self._close(subject)
        if not BEGINS.fullmatch(line):
            self._emit(_record_of(subject, line, place))
            return
        self._open[subject] = _Open(place, [line])
        if self._call_later and not self._will_flush:
            self._will_flush = True
            self._call_later(SILENCE_S, self.flush)

    def flush(self) -> None:
        """Pass on all tracebacks, complete or not."""
        self._will_flush = False
        for subject in list(self._open):
            self._close(subject)

    def _close(self, subject: str) -> None:
        found = self._open.pop(subject, None)
        if found is None:
            return
        fields = {TRACEBACK: "\n".join(found.lines) + "\n"}
        title, place = found.shown_title, found.place
        self._emit(Notice("output", subject, title, "error", fields, place))
        for _ in range(found.blanks):
            self._emit(Notice("output", subject, "", place=place))


def _record_of(subject: str, line: str, place: LogPlace) -> Notice:
    """Return the record of a line that is not part of a traceback.

    A child that writes JSON decides its level and its message, but not its subject and its event.
    """
    if line.startswith("{") and line.endswith("}"):
        try:
            record = _decoded(line)
        except (ValueError, OverflowError, RecursionError):
            record = {}
        level, message = record.pop("level", None), record.pop("message", None)
        if level in LOG_LEVELS and isinstance(message, str):
            fields = {key: value for key, value in record.items() if key not in RESERVED}
            return Notice("log", subject, message, level, fields, place)
    leveled = LEVELED.match(line)
    return Notice("output", subject, line, leveled[1] if leveled else "info", place=place)


def _decoded(text: str) -> dict[str, Any]:
    """Return an object whose values every format can express: no lone surrogates, no long integers.

    :raises ValueError: it is not JSON.
    """
    found = json.loads(text, parse_int=_number)
    if ESCAPED_SURROGATE in text.lower():
        found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    decoded: dict[str, Any] = found
    return decoded


def _number(digits: str) -> float:
    number = int(digits)
    return number if abs(number) <= MAX_INTEGER else float(number)

# SPDX-License-Identifier: Apache-2.0
"""Puts the lines of a traceback that a child prints together again: one record, not thirty."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["WAIT_S", "Tracebacks"]

BEGINS: Final = re.compile(
    r"(?:[ +|]*(?:Exception Group )?Traceback \(most recent call last\):"
    r"|Exception in thread .*:|Exception ignored in: .*)"
)
CHAINS: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
MOST_LINES: Final = 500
#: lines of one traceback come together; what ends it is the line after it, or nothing
WAIT_S: Final = 0.2

#: gets a subject, the line that says what was raised, and all lines
Emit = Callable[[str, str, str], object]
#: gets a subject and a line of nothing else
EmitLine = Callable[[str, str], object]


@dataclass
class _Open:
    """A traceback whose end has not come."""

    lines: list[str] = field(default_factory=list)
    title: str = ""  #: what was raised, once that has come
    blanks: int = 0  #: empty lines after it: another traceback may follow

    @property
    def is_group(self) -> bool:
        """Whether it is that of an exception group, whose lines are all indented."""
        return self.lines[0].startswith(" ")

    @property
    def shown_title(self) -> str:
        """What was raised, as far as that has come."""
        own = (line[4:] for line in self.lines if line.startswith("  | ") and line[4:5].strip())
        return self.title or next(own, self.lines[-1].strip())


class Tracebacks:
    """Collects them, by subject."""

    def __init__(self, emit: Emit, emit_line: EmitLine) -> None:
        """Hand over whole ones, and lines that turned out to be of none."""
        self._emit, self._emit_line = emit, emit_line
        self._open: dict[str, _Open] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether the end of one has not come yet."""
        return bool(self._open)

    def take(self, subject: str, line: str) -> bool:
        """Return whether *line* is of a traceback, and kept."""
        found = self._open.get(subject)
        if found is None:
            if not BEGINS.fullmatch(line):
                return False
            self._open[subject] = _Open([line])
            return True
        if not self._continues(found, line) or len(found.lines) >= MOST_LINES:
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
        """Hand over the one of *subject*, or all."""
        for name in [subject] if subject else list(self._open):
            found = self._open.pop(name, None)
            if found is not None:
                self._emit(name, found.shown_title, "\n".join(found.lines) + "\n")
                for _ in range(found.blanks):
                    self._emit_line(name, "")

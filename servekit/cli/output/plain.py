# SPDX-License-Identifier: Apache-2.0
"""Shows the journal of the supervisor as plain lines."""

import re
from collections.abc import Callable
from typing import Final, Protocol

from servekit.cli.output.nonblocking_writer import NonblockingWriter
from servekit.ipc.kept_log import LOG_LEVELS
from servekit.supervisor.reporting.journal import SERVER, Journal, LogPlace, Notice

__all__ = ["RESULT", "STDERR", "STDOUT", "Display", "PlainDisplay"]

STDOUT: Final = 1
STDERR: Final = 2
RESULT: Final = "serving"  #: the only notice that scripts need: it is written to stdout
SILENT_STEPS: Final = ("", "preparing", "waiting")
#: where the part of a step begins that says how far it is
HOW_FAR: Final = re.compile(r"(?: of)? *[:\d]")


class Display(Journal, Protocol):
    """A journal that can be closed."""

    def close(self) -> None:
        """Write what is still waiting."""


class PlainDisplay:
    """One line per event on stderr; the URLs on stdout."""

    def __init__(self, level: int = 1, *, stdout: int = STDOUT, stderr: int = STDERR) -> None:
        """Leave out notices below *level*."""
        self._level = level
        self._results = NonblockingWriter(stdout)
        self._lines = NonblockingWriter(stderr)
        self._steps: dict[str, str] = {}

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the clock of the event loop."""
        self._results.call_later = self._lines.call_later = call_later

    def notice(self, notice: Notice) -> None:
        """Show one event."""
        if LOG_LEVELS.index(notice.level) >= self._level or notice.event == RESULT:
            self._show(notice)

    def line(self, subject: str, line: str, _place: LogPlace = SERVER) -> None:
        """Show one line of a child."""
        self._lines.write(f"{subject} | {line}\n")

    def progress(self, subject: str, text: str) -> None:
        """Show each step once; every percentage and every package would fill a log."""
        step = HOW_FAR.split(text, maxsplit=1)[0].rstrip()
        is_silent = step.partition(" ")[0] in SILENT_STEPS
        if not is_silent and step != self._steps.get(subject):
            self.notice(Notice("progress", subject, step))
        self._steps[subject] = step

    def close(self) -> None:
        """Write what is still waiting."""
        self._results.close()
        self._lines.close()

    def _writer(self, notice: Notice) -> NonblockingWriter:
        return self._results if notice.event == RESULT else self._lines

    def _show(self, notice: Notice) -> None:
        self._writer(notice).write(f"{notice.subject} {notice.text}\n")

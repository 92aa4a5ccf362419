# SPDX-License-Identifier: Apache-2.0
"""The log of the server: shown as it comes, and passed on as records."""

from collections.abc import Callable

from servekit.supervisor.reporting.journal import SERVER, Journal, LogPlace, Notice
from servekit.supervisor.reporting.records import Records

__all__ = ["Log"]


class Log:
    """A journal whose records others take as well: the memory, files, plugins."""

    def __init__(self, display: Journal) -> None:
        """Let *display* show everything."""
        self._display = display
        self._records = Records(self._pass_on)
        self.takers: list[Callable[[Notice], object]] = []  #: they must not block
        self.progress = display.progress

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the timers of the event loop."""
        self._display.attach(call_later)
        self._records.attach(call_later)

    def notice(self, notice: Notice) -> None:
        """Show a notice, after what was printed before it."""
        self._display.notice(notice)
        self._records.flush()
        self._pass_on(notice)

    def line(self, subject: str, line: str, place: LogPlace = SERVER) -> None:
        """Show a line that a child printed."""
        self._display.line(subject, line, place)
        self._records.line(subject, line, place)

    def close(self) -> None:
        """Pass on what is not complete yet."""
        self._records.flush()

    def _pass_on(self, record: Notice) -> None:
        for take in self.takers:
            take(record)

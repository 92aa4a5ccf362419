# SPDX-License-Identifier: Apache-2.0
"""Shows the journal of the supervisor as JSON lines; a traceback is one of them, not thirty."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

from servekit.cli.output.plain import STDERR, STDOUT, PlainDisplay
from servekit.supervisor.reporting.journal import SERVER, LogPlace, Notice
from servekit.supervisor.reporting.records import Records

__all__ = ["JsonDisplay"]


class JsonDisplay(PlainDisplay):
    """One JSON object per line, and one for each traceback that a child prints."""

    def __init__(self, level: int = 1, *, stdout: int = STDOUT, stderr: int = STDERR) -> None:
        """Leave out notices below *level*."""
        super().__init__(level, stdout=stdout, stderr=stderr)
        self._records = Records(self._show)

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the clock of the event loop."""
        super().attach(call_later)
        self._records.attach(call_later)

    def notice(self, notice: Notice) -> None:
        """Show one event, after what was printed before it."""
        self._records.flush()
        super().notice(notice)

    def line(self, subject: str, line: str, place: LogPlace = SERVER) -> None:
        """Show one line of a child, or keep it until its traceback is complete."""
        self._records.line(subject, line, place)

    def close(self) -> None:
        """Write what is still waiting."""
        self._records.flush()
        super().close()

    def _show(self, notice: Notice) -> None:
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": notice.level,
            "event": notice.event,
            "subject": notice.subject,
            "message": notice.text,
            **notice.members,
        }
        self._writer(notice).write(json.dumps(record, separators=(",", ":")) + "\n")

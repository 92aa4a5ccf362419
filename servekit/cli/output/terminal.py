# SPDX-License-Identifier: Apache-2.0
"""Shows the journal on a terminal: a spinner for each loading model, below everything else."""

import shutil
from collections.abc import Callable
from time import monotonic

from servekit.cli.output.plain import STDERR, STDOUT, PlainDisplay
from servekit.supervisor.reporting.journal import SERVER, LogPlace, Notice

__all__ = ["TerminalDisplay"]

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.1
COLOURS = {"error": "31", "warning": "33", "subject": "36", "line": "2", "serving": "1;32"}


class TerminalDisplay(PlainDisplay):
    """Lines scroll above; the models that load are redrawn in place."""

    def __init__(
        self,
        level: int = 1,
        *,
        has_colour: bool = True,
        stdout: int = STDOUT,
        stderr: int = STDERR,
    ) -> None:
        """Draw nothing yet."""
        super().__init__(level, stdout=stdout, stderr=stderr)
        self._has_colour = has_colour
        self._loading: dict[str, tuple[str, float]] = {}
        self._drawn = 0
        self._is_ticking = False
        self._call_later: Callable[[float, Callable[[], object]], object] | None = None

    def attach(self, call_later: Callable[[float, Callable[[], object]], object]) -> None:
        """Use the clock of the event loop."""
        super().attach(call_later)
        self._call_later = call_later

    def line(self, subject: str, line: str, _place: LogPlace = SERVER) -> None:
        """Show one line of a child above the spinners."""
        self._above(f"{self._paint(subject + ' |', 'line')} {line}\n")

    def progress(self, subject: str, text: str) -> None:
        """Draw, change or remove a spinner."""
        started_at = self._loading.get(subject, ("", monotonic()))[1]
        self._loading.pop(subject, None)
        if text:
            self._loading[subject] = (text, started_at)
        self._above("")
        self._keep_ticking()

    def close(self) -> None:
        """Remove the spinners."""
        self._loading.clear()
        self._above("")
        super().close()

    def _show(self, notice: Notice) -> None:
        kind = notice.event if notice.event in COLOURS else notice.level
        subject = self._paint(notice.subject, "subject")
        self._lines.write(self._erase())
        self._writer(notice).write(f"{subject} {self._paint(notice.text, kind)}\n")
        self._lines.write(self._draw())

    def _above(self, text: str) -> None:
        self._lines.write(self._erase() + text + self._draw())

    def _erase(self) -> str:
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\r\x1b[J" if drawn else ""

    def _draw(self) -> str:
        width = shutil.get_terminal_size().columns - 1
        now = monotonic()
        frame = FRAMES[int(now / FRAME_S) % len(FRAMES)]
        lines = [
            f"{frame} {subject}  {text}  {now - started_at:.1f} s"[:width] + "\n"
            for subject, (text, started_at) in self._loading.items()
        ]
        self._drawn = len(lines)
        return "".join(lines)

    def _keep_ticking(self) -> None:
        if self._loading and self._call_later and not self._is_ticking:
            self._is_ticking = True
            self._call_later(FRAME_S, self._tick)

    def _tick(self) -> None:
        self._is_ticking = False
        self._above("")
        self._keep_ticking()

    def _paint(self, text: str, kind: str) -> str:
        code = COLOURS.get(kind) if self._has_colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text

# SPDX-License-Identifier: Apache-2.0
"""Text at the bottom of a terminal that is drawn again in its place."""

import shutil
from collections.abc import Sequence
from typing import TextIO

__all__ = ["LiveText"]

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveText:
    """Some lines of a terminal; each drawing replaces the one before."""

    def __init__(self, stream: TextIO) -> None:
        """Draw on *stream*, which is a terminal."""
        self._stream = stream
        self._drawn = 0  #: lines
        self._frames = 0

    @property
    def frame(self) -> str:
        """The next picture of a spinner."""
        self._frames += 1
        return FRAMES[self._frames % len(FRAMES)]

    def draw(self, lines: Sequence[str]) -> None:
        """Show *lines*, cut to the size of the terminal."""
        size = shutil.get_terminal_size()
        shown = [_fit(line, size.columns - 1) for line in lines[: size.lines - 1]]
        back = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        self._stream.write(back + "\x1b[J" + "".join(f"{line}\n" for line in shown))
        self._stream.flush()
        self._drawn = len(shown)


def _fit(line: str, columns: int) -> str:
    """Return *line* in at most *columns*, with a sign where it was cut."""
    return line if len(line) <= columns else f"{line[: columns - 1]}…"

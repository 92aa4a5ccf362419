# SPDX-License-Identifier: Apache-2.0
"""How far a run is, in one line of stderr that is drawn again and again."""

import sys
from typing import TextIO

__all__ = ["ProgressLine"]


class ProgressLine:
    """Draws nothing where stderr is not a terminal."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream, self._is_drawn = stream, stream.isatty()
        self._width = 0

    def show(self, text: str) -> None:
        """Draw *text* in place of the last one."""
        if self._is_drawn:
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)

    def clear(self) -> None:
        """Leave an empty line."""
        if self._width:
            self.show("")
            self._stream.write("\r")
            self._stream.flush()
            self._width = 0

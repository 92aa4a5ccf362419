# SPDX-License-Identifier: Apache-2.0
"""The output of a child: bytes in, printable lines out. Never control data."""

from collections import deque
from typing import Final

from servekit.counting import counted

__all__ = ["KEPT_LINES", "MAX_LINE_BYTES", "Lines", "Throttle", "printable"]

MAX_LINE_BYTES = 4096
KEPT_LINES = 40  #: lines for the crash report
MAX_LINES_PER_SECOND = 1000

# C0 and C1 controls except tab, line and paragraph separators, and bidirectional controls
_UNSAFE = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]
_UNSAFE += [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES: Final = {code: ascii(chr(code))[1:-1] for code in _UNSAFE if code != 0x09}


def printable(text: str) -> str:
    """Return *text* as one line, with every control character escaped."""
    return text.translate(_ESCAPES)


class Lines:
    """Splits a stream of bytes into printable lines and remembers the last ones."""

    def __init__(self) -> None:
        """Start at the beginning of a line."""
        self._partial = bytearray()
        self.tail: deque[str] = deque(maxlen=KEPT_LINES)

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that *chunk* completes; a very long line is cut."""
        *complete, rest = chunk.split(b"\n")
        lines = [self._finish(piece) for piece in complete]
        self._extend(rest)
        return lines

    def end(self) -> list[str]:
        """Return the text after the last line break, as a line."""
        return [self._finish(b"")] if self._partial else []

    def _extend(self, piece: bytes) -> None:
        self._partial += piece[: MAX_LINE_BYTES + 1 - len(self._partial)]

    def _finish(self, piece: bytes) -> str:
        self._extend(piece)
        raw = bytes(self._partial[:MAX_LINE_BYTES])
        is_cut = len(self._partial) > MAX_LINE_BYTES
        self._partial.clear()
        line = printable(raw.removesuffix(b"\r").decode(errors="backslashreplace"))
        self.tail.append(line + " [cut]" if is_cut else line)
        return self.tail[-1]


class Throttle:
    """Lets a limited number of lines through every second, and counts the others."""

    def __init__(self, lines_per_second: int = MAX_LINES_PER_SECOND) -> None:
        """Begin with a new second."""
        self._limit = lines_per_second
        self._second = -1
        self._count = 0
        self._held: deque[str] = deque(maxlen=KEPT_LINES)

    def admit(self, lines: list[str], now: float) -> list[str]:
        """Return the lines to show; in a new second the first may say how many were dropped."""
        dropped = 0
        if int(now) != self._second:
            dropped = self._dropped
            self._second, self._count = int(now), 0
            self._held.clear()
        room = max(0, self._limit - self._count)
        self._count += len(lines)
        self._held.extend(lines[room:])
        return [f"[{counted(dropped, 'line')} dropped]", *lines[:room]] if dropped else lines[:room]

    def end(self) -> list[str]:
        """Return the last lines if they were dropped, since they may say why the child died."""
        held = list(self._held)
        self._held.clear()
        missing = self._dropped - len(held) if held else 0
        return [f"[{counted(missing, 'line')} dropped]", *held] if missing else held

    @property
    def _dropped(self) -> int:
        return max(0, self._count - self._limit)

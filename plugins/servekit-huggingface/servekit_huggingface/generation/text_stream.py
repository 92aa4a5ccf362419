# SPDX-License-Identifier: Apache-2.0
"""From tokens to text, piece by piece: whole characters, and nothing of a stop text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TextStream"]

SEEN: Final = 6  #: tokens of the prompt that decide how the first token is written
UNFINISHED: Final = "\ufffd"  #: at the end: a character of which bytes are missing


class TextStream:
    """The text of one answer."""

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stops: Sequence[str]) -> None:
        """Write what follows *prompt*, and end before any of *stops*."""
        self._decode = partial(tokenizer.decode, skip_special_tokens=True)
        self._ids = [*prompt[-SEEN:]]
        #: where the tokens begin that are decoded again, and those that have not been written
        self._context, self._unwritten = 0, len(self._ids)
        self._stops, self._held = stops, ""
        self.has_stopped = False

    def add(self, token: int) -> str:
        """Return the text that *token* completes."""
        self._ids.append(token)
        text = self._new_text()
        if not text or text.endswith(UNFINISHED):
            return ""
        self._context, self._unwritten = self._unwritten, len(self._ids)
        return self._released(text)

    def rest(self) -> str:
        """Return the text that is left when no more tokens come."""
        text = self._released(self._new_text())
        held, self._held = self._held, ""
        return text if self.has_stopped else text + held

    def _new_text(self) -> str:
        before = self._decode(self._ids[self._context : self._unwritten])
        return str(self._decode(self._ids[self._context :])[len(before) :])

    def _released(self, text: str) -> str:
        """Return the text before a stop; what may be the beginning of one is held back."""
        text = self._held + text
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if places:
            self.has_stopped, self._held = True, ""
            return text[: min(places)]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of *text* begin *stop*."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)

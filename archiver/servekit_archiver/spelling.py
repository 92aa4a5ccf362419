# SPDX-License-Identifier: Apache-2.0
"""Finds the name that was meant by one that is not known."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Final

__all__ = ["closest"]

LETTERS: Final = 3  #: for each so many letters one may be wrong
MOST: Final = 2  #: letters that may be wrong
ABBREVIATION: Final = 3  #: letters that are enough for the beginning of a name


def closest(word: str, known: Iterable[str]) -> str:
    """Return which of *known* is *word* with a typing error, or begins with it; "" if none is."""
    likely = [name for name in known if _may_mean(word, name)]
    return next(iter(get_close_matches(word, likely, n=1, cutoff=0.0)), "")


def _may_mean(word: str, name: str) -> bool:
    letters = len(word.lstrip("-"))
    if letters >= ABBREVIATION and name.startswith(word):
        return True
    blocks = SequenceMatcher(None, word, name, autojunk=False).get_matching_blocks()
    wrong = max(len(word), len(name)) - sum(block.size for block in blocks)
    return wrong <= min(MOST, letters // LETTERS)

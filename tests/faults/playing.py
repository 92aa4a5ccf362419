# SPDX-License-Identifier: Apache-2.0
"""Plays one row and says how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from tests.faults.figures import Figure
from tests.faults.rows import ROWS, promise
from tests.faults.stage import NotHere, Stage
from tests.faults.subjects import SERVEKIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.subjects import Subject

LINES_TOLD = 40


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a row has measured."""

    key: str
    promise: str
    subject: str = SERVEKIT.name
    seconds: float = 0.0
    left_out: str = ""  #: why it could not be played here
    figures: list[Figure] = field(default_factory=list)

    @property
    def missed(self) -> list[Figure]:
        """The figures that are not what was wanted."""
        return [figure for figure in self.figures if not figure.is_met]


def play(
    key: str, *, is_short: bool, say: Callable[[str], object], subject: Subject = SERVEKIT
) -> Outcome:
    """Play a row; one that breaks off is missed."""
    outcome, began = Outcome(key=key, promise=promise(key), subject=subject.name), monotonic()
    stage = Stage(is_short=is_short or key in subject.short, say=say, subject=subject)
    try:
        outcome.left_out = subject.cannot.get(key, "")
        if not outcome.left_out:
            outcome.figures += ROWS[key](stage)
            outcome.figures += stage.figures()
    except NotHere as reason:
        outcome.left_out = str(reason)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        outcome.figures.append(Figure("the row is played to its end", "yes", text, is_met=False))
    finally:
        stage.close()
    if outcome.missed:
        for line in stage.last_words[-LINES_TOLD:]:
            say(f"  {line}")
    outcome.seconds = monotonic() - began
    return outcome

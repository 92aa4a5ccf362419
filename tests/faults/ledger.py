# SPDX-License-Identifier: Apache-2.0
"""What became of every request: one line each, written by the client that sent it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

LOST = frozenset({"reset", "closed", "timeout"})  #: ends without an answer that nobody asked for


@dataclass(slots=True)
class Line:
    """One request. Moments are seconds of ``time.monotonic()``."""

    id: str
    kind: str
    due: float
    sent: float = math.nan  #: first byte handed to the kernel
    ended: float = math.nan
    end: str = ""  #: answered, or reset, closed, timeout, refused (no connection), left (by us)
    status: int = 0
    is_right: bool = True  #: not a 200, or a 200 with what only this request may get
    body: bytes = b""

    @property
    def latency_s(self) -> float:
        """From the moment it was due, whether or not it could be sent then."""
        return self.ended - self.due

    def __str__(self) -> str:
        """``F1-17 reset after 0.213 s``."""
        end = f"{self.status}" if self.status else self.end
        return f"{self.id} {end} after {self.latency_s:.3f} s"


@dataclass(slots=True)
class Ledger:
    """The lines of one run, in the order in which they were due."""

    lines: list[Line] = field(default_factory=list)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def of(self, kind: str) -> Ledger:
        """Return the lines of one kind of request."""
        return Ledger([line for line in self.lines if line.kind == kind])

    def between(self, begin: float, end: float) -> Ledger:
        """Return the lines that were due in this time."""
        return Ledger([line for line in self.lines if begin <= line.due < end])

    def answered(self, *statuses: int) -> list[Line]:
        """Return what was answered with one of *statuses*."""
        return [line for line in self.lines if line.status in statuses]

    def counts(self) -> Counter[str]:
        """Count statuses, and ends without one."""
        return Counter(str(line.status or line.end) for line in self.lines)

    def lost(self) -> list[Line]:
        """Return what was sent and never answered: reset, closed or timed out."""
        return [line for line in self.lines if line.end in LOST]

    def wrong(self) -> list[Line]:
        """Return the 200s with another request's answer."""
        return [line for line in self.lines if not line.is_right]

    def other_than(self, allowed: Collection[int]) -> list[Line]:
        """Return what was answered with another status."""
        return [line for line in self.lines if line.status and line.status not in allowed]

    def latency_ms(self, percent: float, *statuses: int) -> float:
        """Return a percentile of the latencies of what was answered with *statuses*.

        Without *statuses*, of all, however they ended: who gave up has waited too.
        """
        lines = self.answered(*statuses) if statuses else self.lines
        ordered = sorted(line.latency_s for line in lines)
        return 1000 * percentile(ordered, percent)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that *percent* of the *ordered* values do not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]

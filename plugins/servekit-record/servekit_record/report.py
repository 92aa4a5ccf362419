# SPDX-License-Identifier: Apache-2.0
"""The result of a replay: differences, and how fast the answers came."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servekit_record.comparison import ResponseComparison
    from servekit_record.recording import RecordedCall
    from servekit_record.sending import ReplayedResponse

__all__ = ["FoundDifference", "ReplayReport"]

MAX_SHOWN = 20  #: differences in a report for people


class FoundDifference(Struct):
    """One response that is not the recorded one."""

    number: int  #: place of the call in the recording, from 1
    request_id: str
    target: str
    problem: str


class ReplayReport:
    """Collects answers."""

    def __init__(self, comparison: ResponseComparison) -> None:
        """Begin with nothing."""
        self._comparison = comparison
        self.calls = 0
        self.streams = 0  #: only their status is compared
        self.differences: list[FoundDifference] = []
        self._recorded_s: list[float] = []
        self._replayed_s: list[float] = []

    def take(self, number: int, call: RecordedCall, answer: ReplayedResponse) -> None:
        """Compare the *answer* to *call*, the one with *number* in the recording."""
        self.calls += 1
        self.streams += call.is_stream
        problem = answer.problem or self._comparison.difference(call, answer.status, answer.message)
        if problem:
            found = FoundDifference(number, call.request_id, call.target, problem)
            self.differences.append(found)
        elif not call.is_stream:
            self._recorded_s.append(call.duration_s)
            self._replayed_s.append(
                answer.elapsed_s if answer.server_s is None else answer.server_s
            )

    def document(self) -> dict[str, Any]:
        """Return everything, for programs. Durations are seconds in the server."""
        return {
            "calls": self.calls,
            "streams": self.streams,
            "different": len(self.differences),
            "recorded_s": _percentiles(self._recorded_s),
            "replayed_s": _percentiles(self._replayed_s),
            "differences": sorted(self.differences, key=lambda each: each.number),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        found = sorted(self.differences, key=lambda each: each.number)
        for each in found[:MAX_SHOWN]:
            yield f"call {each.number}  {each.target}  {each.problem}"
        if len(found) > MAX_SHOWN:
            yield f"... and {len(found) - MAX_SHOWN} more"
        if found:
            yield ""
        yield f"{self.calls} calls, {len(found) or 'none'} different"
        if self.streams:
            yield f"{self.streams} of them streams: only their status was compared"
        if self._replayed_s:
            yield ""
            yield f"{'time in the server':20}{'median':>12}{'p99':>12}"
            yield _row("recorded", self._recorded_s)
            yield _row("replayed", self._replayed_s)


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "median": median(ordered),
        "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
    }


def _row(name: str, values: Sequence[float]) -> str:
    found = _percentiles(values)
    shown = "".join(f"{found[each] * 1e3:>9.2f} ms" for each in ("median", "p99"))
    return f"{name:20}{shown}"

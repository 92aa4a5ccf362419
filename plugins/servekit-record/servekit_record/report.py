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


class Durations:
    """One duration of many calls, in seconds: as recorded, and in the replay."""

    def __init__(self, title: str) -> None:
        """Begin with none."""
        self._title = title
        self._recorded: list[float] = []
        self._replayed: list[float] = []

    def add(self, recorded_s: float, replayed_s: float) -> None:
        """Add those of one call."""
        self._recorded.append(recorded_s)
        self._replayed.append(replayed_s)

    def document(self) -> dict[str, Any]:
        """Return the percentiles, for programs."""
        return {
            "recorded_s": _percentiles(self._recorded),
            "replayed_s": _percentiles(self._replayed),
        }

    def lines(self) -> Iterator[str]:
        """Yield the percentiles, for people; nothing if there are none."""
        if self._replayed:
            yield ""
            yield f"{self._title:20}{'median':>12}{'p99':>12}"
            yield _row("recorded", self._recorded)
            yield _row("replayed", self._replayed)


class ReplayReport:
    """Collects answers."""

    def __init__(self, comparison: ResponseComparison) -> None:
        """Begin with nothing."""
        self._comparison = comparison
        self.calls = 0
        self.streams = 0
        self.incomplete = 0  #: streams whose body was not recorded whole: not compared
        self.differences: list[FoundDifference] = []
        self._answers = Durations("time in the server")
        self._first_pieces = Durations("stream: first piece")
        self._streams = Durations("stream: end")

    def take(self, number: int, call: RecordedCall, answer: ReplayedResponse) -> None:
        """Compare the *answer* to *call*, the one with *number* in the recording."""
        self.calls += 1
        self.streams += call.is_stream
        self.incomplete += not call.has_whole_body
        problem = answer.problem or self._comparison.difference(call, answer.status, answer.message)
        if problem:
            found = FoundDifference(number, call.request_id, call.target, problem)
            self.differences.append(found)
        else:
            self._add_durations(call, answer)

    def _add_durations(self, call: RecordedCall, answer: ReplayedResponse) -> None:
        server_s = answer.server_s
        if not call.is_stream:
            self._answers.add(call.duration_s, answer.elapsed_s if server_s is None else server_s)
        elif call.stream is not None and call.has_whole_body:
            first_s = answer.first_s if server_s is None else server_s
            self._first_pieces.add(call.stream.first_s or 0.0, first_s)
            self._streams.add(call.duration_s, answer.elapsed_s)

    def document(self) -> dict[str, Any]:
        """Return everything, for programs."""
        return {
            "calls": self.calls,
            "streams": self.streams,
            "incomplete_streams": self.incomplete,
            "different": len(self.differences),
            **self._answers.document(),
            "first_piece": self._first_pieces.document(),
            "whole_stream": self._streams.document(),
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
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        streams = f" ({self.streams} streamed)" if self.streams else ""
        yield f"{calls}{streams}, {len(found) or 'none'} different"
        if self.incomplete:
            yield f"only the status compared, as not recorded to the end: {self.incomplete}"
        for durations in (self._answers, self._first_pieces, self._streams):
            yield from durations.lines()


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

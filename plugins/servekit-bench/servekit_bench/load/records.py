# SPDX-License-Identifier: Apache-2.0
"""The report of one process of the load generator. Runs in: that process."""

from array import array
from pathlib import Path
from time import monotonic, process_time
from typing import Final

from msgspec import Struct

__all__ = ["LoadReport", "Recorder", "StreamReport"]

SCHEDULING: Final = Path("/proc/self/schedstat")
MESSAGE_BYTES: Final = 500  #: longest message of an error


class StreamReport(Struct):
    """The streams among the answers. Arrays are bytes of float64."""

    first_outputs_s: bytes
    gaps_s: bytes
    outputs: int


class StreamRecorder:
    """Collects when the outputs of streams came."""

    def __init__(self) -> None:
        self.first_outputs_s, self.gaps_s = array("d"), array("d")
        self.outputs = 0

    def report(self) -> StreamReport:
        """Return the report."""
        first, gaps = self.first_outputs_s.tobytes(), self.gaps_s.tobytes()
        return StreamReport(first, gaps, self.outputs)


class LoadReport(Struct):
    """The report of a process. Arrays are bytes of float64."""

    latencies_s: bytes  #: in the order in which the answers came
    marks: list[tuple[float, int]]  #: seconds since the measurement began, latencies by then
    answered: int  #: answers other than failures within the measurement
    statuses: dict[int, int]
    failures: dict[str, tuple[int, str]]  #: kind to number and first message
    unanswered: int
    sent_bytes: int
    received_bytes: int
    streams: StreamReport
    late_s: bytes
    reconnects: int
    duration_s: float
    cpu_s: float
    cpu_wait_s: float  #: ready to run, but all cores were taken
    was_stopped: bool


class Recorder:
    """Collects what happens to the requests that are due from ``begin`` on."""

    def __init__(self) -> None:
        self.begin_s = float("inf")  #: monotonic; requests that were due before do not count
        self.latencies_s = array("d")
        self.marks: list[tuple[float, int]] = []
        self.answered = self.sent_bytes = self.received_bytes = 0  #: whatever was due when
        self.plain = 0  #: answers of status 200 that went the fast way
        self.statuses: dict[int, int] = {}
        self.failures: dict[str, tuple[int, str]] = {}
        self.streams = StreamRecorder()
        self.late_s = array("d")
        self.reconnects = self.unanswered = 0
        self._before = self._after = (0.0, 0.0, 0.0)
        self._in_time = (0, 0, 0)

    def begin(self, begin_s: float) -> None:
        """Forget the warm-up: what is due from *begin_s* on counts."""
        self.__init__()  # type: ignore[misc]
        self.begin_s = begin_s
        self._before = _clocks()

    def end(self) -> None:
        """Note how much time was used; answers that come later are not part of the rate."""
        self._after = _clocks()
        self._in_time = (self.answered, self.sent_bytes, self.received_bytes)
        self.mark(self._after[0])

    def mark(self, now: float) -> None:
        """Note how many answers have come until *now*."""
        self.marks.append((now - self.begin_s, len(self.latencies_s)))

    def count(self, status: int) -> None:
        """Count an answer that is not counted on the fast way."""
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def fail(self, kind: str, message: str) -> None:
        """Count a failed request of a *kind*; its first message is kept."""
        number, first = self.failures.get(kind, (0, message[:MESSAGE_BYTES]))
        self.failures[kind] = (number + 1, first)

    def report(self, *, was_stopped: bool) -> LoadReport:
        """Return the report."""
        answered, sent, received = self._in_time
        spent = [after - before for before, after in zip(self._before, self._after, strict=True)]
        return LoadReport(
            latencies_s=self.latencies_s.tobytes(),
            marks=self.marks,
            answered=answered,
            statuses=self.statuses | {200: self.statuses.get(200, 0) + self.plain},
            failures=self.failures,
            unanswered=self.unanswered,
            sent_bytes=sent,
            received_bytes=received,
            streams=self.streams.report(),
            late_s=self.late_s.tobytes(),
            reconnects=self.reconnects,
            duration_s=spent[0],
            cpu_s=spent[1],
            cpu_wait_s=spent[2],
            was_stopped=was_stopped,
        )


def _clocks() -> tuple[float, float, float]:
    """Return seconds: of the clock, on a core, and waiting for a core."""
    try:
        waited_s = int(SCHEDULING.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):  # a kernel without these counts
        waited_s = 0.0
    return monotonic(), process_time(), waited_s

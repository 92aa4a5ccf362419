# SPDX-License-Identifier: Apache-2.0
"""Measures targets in rounds, alternating, so that changes of the machine meet all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from servekit_bench.load import Load, Measurement, generate
from servekit_bench.progress import ProgressLine
from servekit_bench.targets import OpenTarget

__all__ = ["Measuring", "alternate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How each measurement of a run is made."""

    duration_s: float
    warmup_s: float
    timeout_s: float  #: the longest wait for an answer
    processes: int  #: of the generator; 0 for the default
    deadline: float  #: monotonic: the end of the run, whatever is left to measure
    progress: ProgressLine

    def measure(self, target: OpenTarget, load: Load, what: str) -> Measurement:
        """Put *load* on *target*; *what* says on stderr which part of the run this is."""
        whole_s = self.warmup_s + self.duration_s

        def show(seconds: float) -> None:
            self.progress.show(f"{what}: {min(seconds, whole_s):.0f} of {whole_s:.0f} s")

        return generate(
            target.target,
            load,
            duration_s=self.duration_s,
            warmup_s=self.warmup_s,
            timeout_s=self.timeout_s,
            processes=self.processes,
            deadline=self.deadline,
            progress=show,
        )

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return monotonic() >= self.deadline


def alternate(
    targets: Sequence[OpenTarget], load: Load, rounds: int, measuring: Measuring
) -> list[list[Measurement]]:
    """Return the measurements of each target; the order of the targets changes in each round.

    After Ctrl-C or the deadline, those that were made until then, also an incomplete one.
    """
    found: list[list[Measurement]] = [[] for _ in targets]
    for number, place in _turns(len(targets), rounds):
        what = f"round {number + 1} of {rounds}: " if rounds > 1 else ""
        seen = measuring.measure(targets[place], load, what + targets[place].name)
        found[place].append(seen)
        if seen.was_stopped or measuring.is_over:
            break
    return found


def _turns(targets: int, rounds: int) -> Iterator[tuple[int, int]]:
    """Yield round and target: 0 1, then 1 0, then 0 1."""
    for number in range(rounds):
        places = range(targets) if number % 2 == 0 else reversed(range(targets))
        yield from ((number, place) for place in places)

# SPDX-License-Identifier: Apache-2.0
"""How long work tells its caller how far it is."""

from collections.abc import Callable

__all__ = ["Meter", "Progress"]

Progress = Callable[[int, int], None]  #: called with the bytes done and the bytes in all


class Meter:
    """Adds up the bytes done and reports each step, if anybody listens."""

    def __init__(self, total: int, report: Progress | None) -> None:
        self._done, self._total, self._report = 0, total, report

    def add(self, count: int) -> None:
        """Count *count* more bytes."""
        self._done += count
        if self._report:
            self._report(self._done, self._total)
